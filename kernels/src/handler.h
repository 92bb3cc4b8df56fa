// What handlers have in common: they check the arguments of XLA, and compute with XLA's own threads.

#pragma once

#include <functional>
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

// XLA's threads for this call, which the program's other operations use as well.
inline Pool pool_of(ffi::ThreadPool threads) {
  const int count = static_cast<int>(threads.num_threads());
  if (count < 2) return {};
  return {count, [threads](std::function<void()> task) mutable { threads.Schedule(std::move(task)); }};
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

}  // namespace flambeau
