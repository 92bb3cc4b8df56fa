// What handlers have in common: they check the arguments of XLA, and compute with as many threads.

#pragma once

#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "pool.h"
#include "xla/ffi/api/ffi.h"

namespace flambeau {

namespace ffi = xla::ffi;

using Array = ffi::Buffer<ffi::F32>;
using Result = ffi::ResultBuffer<ffi::F32>;
using Numbers = ffi::Span<const std::int64_t>;
using Dimensions = ffi::Span<const std::int64_t>;

// As many threads as XLA uses itself.
inline Pool pool_of(const ffi::ThreadPool& threads) {
  return {static_cast<int>(threads.num_threads())};
}

inline std::string text_of(Dimensions dimensions) {
  std::string text = "[";
  for (const std::int64_t each : dimensions) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(each);
  }
  return text + "]";
}

// An exception must not reach XLA, which is compiled without them. What computes may give an error.
template <typename Compute>
ffi::Error run_safely(const char* name, Compute compute) {
  try {
    if constexpr (std::is_void_v<decltype(compute())>) {
      compute();
    } else {
      return compute();
    }
  } catch (const std::bad_alloc&) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted, std::string(name) + ": out of memory");
  }
  return ffi::Error::Success();
}

// A binding that takes so many more arrays, or gives so many more; at least one. It can only be moved.
template <int kCount, typename Binding>
auto with_arrays(Binding&& binding) {
  if constexpr (kCount == 1) {
    return std::move(binding).template Arg<Array>();
  } else {
    return with_arrays<kCount - 1>(std::move(binding).template Arg<Array>());
  }
}
template <int kCount, typename Binding>
auto with_results(Binding&& binding) {
  if constexpr (kCount == 1) {
    return std::move(binding).template Ret<Array>();
  } else {
    return with_results<kCount - 1>(std::move(binding).template Ret<Array>());
  }
}

}  // namespace flambeau
