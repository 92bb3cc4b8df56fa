// Convolutions, as XLA calls them.

#include <algorithm>

#include "convolution.h"
#include "handler.h"
#include "micro.h"

namespace flambeau {
namespace {

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
  shape.samples = images[0];
  shape.inputs = filters[1];
  shape.groups = images[1] / std::max<std::int64_t>(shape.inputs, 1);
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
  return ffi::Error::Success();
}

using Kernel = void (*)(const Convolution&, const float*, const float*, float*, const Pool&);

ffi::Error run(Kernel kernel, const Convolution& shape, ffi::ThreadPool threads, Array left,
               Array right, Result result) {
  float* to = result->typed_data();
  // Sums of nothing.
  if (left.element_count() == 0 || right.element_count() == 0) {
    std::fill(to, to + result->element_count(), 0.0f);
    return ffi::Error::Success();
  }
  if (result->element_count() == 0) return ffi::Error::Success();
  if (!is_possible(shape)) return refusal("the arrays are too large");
  return run_safely("flambeau's convolution", [&] {
    kernel(shape, left.typed_data(), right.typed_data(), to, pool_of(threads));
  });
}

ffi::Error results_of(ffi::ThreadPool threads, Array images, Array filters, Numbers stride,
                      Numbers before, Numbers dilation, Result results) {
  Convolution shape;
  ffi::Error error = shape_of(images.dimensions(), filters.dimensions(), results->dimensions(),
                              stride, before, dilation, shape);
  return error.failure() ? error : run(convolve, shape, threads, images, filters, results);
}

ffi::Error images_of(ffi::ThreadPool threads, Array cotangents, Array filters, Numbers stride,
                     Numbers before, Numbers dilation, Result images) {
  Convolution shape;
  ffi::Error error = shape_of(images->dimensions(), filters.dimensions(), cotangents.dimensions(),
                              stride, before, dilation, shape);
  return error.failure() ? error : run(convolve_images, shape, threads, cotangents, filters, images);
}

ffi::Error filters_of(ffi::ThreadPool threads, Array cotangents, Array images, Numbers stride,
                      Numbers before, Numbers dilation, Result filters) {
  Convolution shape;
  ffi::Error error = shape_of(images.dimensions(), filters->dimensions(), cotangents.dimensions(),
                              stride, before, dilation, shape);
  return error.failure() ? error : run(convolve_filters, shape, threads, cotangents, images, filters);
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
