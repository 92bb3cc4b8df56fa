// What XLA calls: arguments are checked, then computed with by XLA's own threads.

#include <string>

#include "convolution.h"
#include "micro.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace flambeau {
namespace {

using Array = ffi::Buffer<ffi::F32>;
using Result = ffi::ResultBuffer<ffi::F32>;
using Numbers = ffi::Span<const std::int64_t>;
using Dimensions = ffi::Span<const std::int64_t>;

// XLA's threads for this call, which the program's other operations use as well.
Pool pool_of(ffi::ThreadPool threads) {
  const int count = static_cast<int>(threads.num_threads());
  if (count < 2) return {};
  return {count, [threads](std::function<void()> task) mutable { threads.Schedule(std::move(task)); }};
}

std::string text_of(Dimensions dimensions) {
  std::string text = "[";
  for (const std::int64_t each : dimensions) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(each);
  }
  return text + "]";
}

ffi::Error refusal(const std::string& reason) {
  return ffi::Error::InvalidArgument("flambeau's convolution: " + reason);
}

// The three arrays of a convolution, of which one is the result, as a shape that the kernels take.
ffi::Error shape_of(Dimensions images, Dimensions filters, Dimensions results, Numbers stride,
                    Numbers before, Numbers dilation, Convolution& shape) {
  const std::size_t rank = images.size();
  if (rank < 3 || rank > 5 || filters.size() != rank || results.size() != rank) {
    return refusal("takes one to three spatial dimensions, got images " + text_of(images) +
                   ", filters " + text_of(filters) + " and results " + text_of(results));
  }
  const std::size_t spatial = rank - 2;
  if (stride.size() != spatial || before.size() != spatial || dilation.size() != spatial) {
    return refusal("needs one stride, border and dilation for each spatial dimension");
  }
  for (const Dimensions& each : {images, filters, results}) {
    for (const std::int64_t size : each) {
      if (size < 1) return refusal("takes no empty array, got " + text_of(each));
    }
  }
  shape.samples = images[0];
  shape.inputs = filters[1];
  shape.groups = images[1] / shape.inputs;
  shape.outputs = filters[0] / std::max<std::int64_t>(shape.groups, 1);
  if (results[0] != images[0] || results[1] != filters[0] ||
      shape.groups * shape.inputs != images[1] || shape.groups * shape.outputs != filters[0]) {
    return refusal("samples or channels do not match: images " + text_of(images) + ", filters " +
                   text_of(filters) + ", results " + text_of(results));
  }
  for (std::size_t each = 0; each < 3; ++each) {
    const bool used = each >= 3 - spatial;
    const std::size_t at = used ? each - (3 - spatial) : 0;
    shape.image[each] = used ? images[2 + at] : 1;
    shape.kernel[each] = used ? filters[2 + at] : 1;
    shape.result[each] = used ? results[2 + at] : 1;
    shape.stride[each] = used ? stride[at] : 1;
    shape.before[each] = used ? before[at] : 0;
    shape.dilation[each] = used ? dilation[at] : 1;
    if (shape.stride[each] < 1 || shape.dilation[each] < 1) {
      return refusal("stride and dilation must be positive");
    }
  }
  if (!is_possible(shape)) {
    return refusal("images " + text_of(images) + " are too large");
  }
  return ffi::Error::Success();
}

template <typename Run>
ffi::Error guarded(Run run) {
  // An exception must not reach XLA, which is compiled without them.
  try {
    run();
  } catch (const std::bad_alloc&) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted, "flambeau's kernels: out of memory");
  }
  return ffi::Error::Success();
}

ffi::Error results_of(ffi::ThreadPool threads, Array images, Array filters, Numbers stride,
                      Numbers before, Numbers dilation, Result results) {
  Convolution shape;
  ffi::Error error = shape_of(images.dimensions(), filters.dimensions(), results->dimensions(),
                              stride, before, dilation, shape);
  if (error.failure()) return error;
  return guarded([&] {
    convolve(shape, images.typed_data(), filters.typed_data(), results->typed_data(),
             pool_of(threads));
  });
}

ffi::Error images_of(ffi::ThreadPool threads, Array cotangents, Array filters, Numbers stride,
                     Numbers before, Numbers dilation, Result images) {
  Convolution shape;
  ffi::Error error = shape_of(images->dimensions(), filters.dimensions(), cotangents.dimensions(),
                              stride, before, dilation, shape);
  if (error.failure()) return error;
  return guarded([&] {
    convolve_images(shape, cotangents.typed_data(), filters.typed_data(), images->typed_data(),
                    pool_of(threads));
  });
}

ffi::Error filters_of(ffi::ThreadPool threads, Array cotangents, Array images, Numbers stride,
                      Numbers before, Numbers dilation, Result filters) {
  Convolution shape;
  ffi::Error error = shape_of(images.dimensions(), filters->dimensions(), cotangents.dimensions(),
                              stride, before, dilation, shape);
  if (error.failure()) return error;
  return guarded([&] {
    convolve_filters(shape, cotangents.typed_data(), images.typed_data(), filters->typed_data(),
                     pool_of(threads));
  });
}

auto with_two_arrays() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<Array>()
      .Arg<Array>()
      .Attr<Numbers>("stride")
      .Attr<Numbers>("before")
      .Attr<Numbers>("dilation")
      .Ret<Array>();
}

}  // namespace
}  // namespace flambeau

#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_convolution, flambeau::results_of,
                              flambeau::with_two_arrays());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_convolution_images, flambeau::images_of,
                              flambeau::with_two_arrays());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_convolution_filters, flambeau::filters_of,
                              flambeau::with_two_arrays());

// The instructions that the kernels use on this processor.
extern "C" const char* flambeau_instructions() { return flambeau::micro().name; }

#pragma GCC visibility pop
