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
ffi::Error one_shape_of(Dimensions images, Dimensions filters, Dimensions results, Numbers stride,
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

// Several convolutions of one shape: the arrays may have one more dimension in front, of parts.
struct Parts {
  std::int64_t count = 1;
  Convolution shape;
};

ffi::Error parts_of(Dimensions images, Dimensions filters, Dimensions results, Numbers stride,
                    Numbers before, Numbers dilation, Parts& parts) {
  if (images.size() == stride.size() + 3) {
    parts.count = images[0];
    for (Dimensions* each : {&images, &filters, &results}) {
      if (each->size() == 0 || (*each)[0] != parts.count) {
        return refusal("each array must have " + std::to_string(parts.count) + " parts, got " +
                       text_of(*each));
      }
      *each = Dimensions(each->begin() + 1, each->size() - 1);
    }
  }
  return one_shape_of(images, filters, results, stride, before, dilation, parts.shape);
}

using Kernel = void (*)(const Convolution&, const float*, const float*, float*, const Pool&);

ffi::Error run(Kernel kernel, const Parts& parts, ffi::ThreadPool threads, Array left, Array right,
               Result result) {
  float* to = result->typed_data();
  // Sums of nothing.
  if (left.element_count() == 0 || right.element_count() == 0) {
    std::fill(to, to + result->element_count(), 0.0f);
    return ffi::Error::Success();
  }
  if (result->element_count() == 0) return ffi::Error::Success();
  if (!is_possible(parts.shape)) return refusal("the arrays are too large");
  return run_safely("flambeau's convolution", [&] {
    const Pool pool = pool_of(threads);
    for (std::int64_t part = 0; part < parts.count; ++part) {
      const auto begin = [&](auto&& array) { return part * (array.element_count() / parts.count); };
      kernel(parts.shape, left.typed_data() + begin(left), right.typed_data() + begin(right),
             to + begin(*result), pool);
    }
  });
}

ffi::Error results_of(ffi::ThreadPool threads, Array images, Array filters, Numbers stride,
                      Numbers before, Numbers dilation, Result results) {
  Parts parts;
  ffi::Error error = parts_of(images.dimensions(), filters.dimensions(), results->dimensions(),
                              stride, before, dilation, parts);
  return error.failure() ? error : run(convolve, parts, threads, images, filters, results);
}

ffi::Error images_of(ffi::ThreadPool threads, Array cotangents, Array filters, Numbers stride,
                     Numbers before, Numbers dilation, Result images) {
  Parts parts;
  ffi::Error error = parts_of(images->dimensions(), filters.dimensions(), cotangents.dimensions(),
                              stride, before, dilation, parts);
  return error.failure() ? error : run(convolve_images, parts, threads, cotangents, filters, images);
}

ffi::Error filters_of(ffi::ThreadPool threads, Array cotangents, Array images, Numbers stride,
                      Numbers before, Numbers dilation, Result filters) {
  Parts parts;
  ffi::Error error = parts_of(images.dimensions(), filters->dimensions(), cotangents.dimensions(),
                              stride, before, dilation, parts);
  return error.failure() ? error : run(convolve_filters, parts, threads, cotangents, images, filters);
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

// It is there if arrays may have a dimension of parts, which they have in programs over several devices.
extern "C" void flambeau_takes_parts() {}

#pragma GCC visibility pop
