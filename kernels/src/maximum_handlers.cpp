// Max pooling, as XLA calls it. The last dimensions are those of a plane.

#include "handler.h"
#include "maxima.h"

namespace flambeau {
namespace {

using Taps = ffi::Buffer<ffi::S32>;

ffi::Error refusal(const std::string& reason) {
  return ffi::Error::InvalidArgument("flambeau's max pooling: " + reason);
}

ffi::Error shape_of(Dimensions images, Dimensions maxima, Dimensions taps, Numbers kernel,
                    Numbers stride, Numbers before, Numbers dilation, Pooling& shape) {
  const std::size_t rank = images.size(), spatial = kernel.size();
  if (spatial < 1 || spatial > 3 || rank < spatial || stride.size() != spatial ||
      before.size() != spatial || dilation.size() != spatial) {
    return refusal("needs one size, stride, border and dilation of windows for each of one to three " +
                   std::string("dimensions, got images ") + text_of(images));
  }
  const std::size_t front = rank - spatial;
  const auto fits = [&](Dimensions each) {
    return each.size() == rank && std::equal(images.begin(), images.begin() + front, each.begin());
  };
  if (!fits(maxima) || !std::equal(maxima.begin(), maxima.end(), taps.begin(), taps.end())) {
    return refusal("images " + text_of(images) + ", maxima " + text_of(maxima) + " and taps " +
                   text_of(taps) + " do not match");
  }
  shape.planes = 1;
  for (std::size_t each = 0; each < front; ++each) shape.planes *= images[each];
  for (std::size_t each = 0; each < 3; ++each) {
    const bool used = each >= 3 - spatial;
    const std::size_t at = used ? each - (3 - spatial) : 0;
    shape.image[each] = used ? images[front + at] : 1;
    shape.result[each] = used ? maxima[front + at] : 1;
    shape.kernel[each] = used ? kernel[at] : 1;
    shape.stride[each] = used ? stride[at] : 1;
    shape.before[each] = used ? before[at] : 0;
    shape.dilation[each] = used ? dilation[at] : 1;
    const bool fit = shape.kernel[each] > 0 && shape.stride[each] > 0 && shape.before[each] >= 0 &&
                     shape.dilation[each] > 0;
    if (!fit) return refusal("sizes, strides and dilations must be positive, borders not negative");
  }
  if (!is_possible(shape)) return refusal("a window has no element, or too many");
  return ffi::Error::Success();
}

ffi::Error maxima_of(ffi::ThreadPool threads, Array images, Numbers kernel, Numbers stride,
                     Numbers before, Numbers dilation, Result maxima, ffi::Result<Taps> taps) {
  Pooling shape;
  const ffi::Error error = shape_of(images.dimensions(), maxima->dimensions(), taps->dimensions(),
                                    kernel, stride, before, dilation, shape);
  if (error.failure()) return error;
  return run_safely("flambeau's max pooling", [&] {
    max_pool(shape, images.typed_data(), maxima->typed_data(), taps->typed_data(), pool_of(threads));
  });
}

ffi::Error gradient_of(ffi::ThreadPool threads, Array cotangents, Taps taps, Numbers kernel,
                       Numbers stride, Numbers before, Numbers dilation, Result images) {
  Pooling shape;
  const ffi::Error error = shape_of(images->dimensions(), cotangents.dimensions(),
                                    taps.dimensions(), kernel, stride, before, dilation, shape);
  if (error.failure()) return error;
  return run_safely("flambeau's max pooling", [&] {
    max_pool_gradient(shape, cotangents.typed_data(), taps.typed_data(), images->typed_data(),
                      pool_of(threads));
  });
}

template <typename Binding>
auto with_windows(Binding binding) {
  return std::move(binding)
      .template Attr<Numbers>("kernel")
      .template Attr<Numbers>("stride")
      .template Attr<Numbers>("before")
      .template Attr<Numbers>("dilation");
}

auto with_images() {
  return with_windows(ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>())
      .Ret<Array>()
      .Ret<Taps>();
}

auto with_cotangents() {
  return with_windows(ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Taps>())
      .Ret<Array>();
}

}  // namespace
}  // namespace flambeau

#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_max_pool, flambeau::maxima_of, flambeau::with_images());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_max_pool_gradient, flambeau::gradient_of,
                              flambeau::with_cotangents());

#pragma GCC visibility pop
