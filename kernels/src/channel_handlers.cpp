// Functions of the channels of (samples, channels, size), as XLA calls them.

#include "channels.h"
#include "handler.h"
#include "normalization.h"

namespace flambeau {
namespace {

constexpr const char* kName = "flambeau's function of channels";

ffi::Error channels_of(Dimensions sizes, std::initializer_list<Dimensions> like,
                       std::initializer_list<Dimensions> vectors, Channels& channels) {
  if (sizes.size() != 3 || (sizes[2] < kShortestRow && sizes[2] != 0)) {
    return ffi::Error::InvalidArgument(
        std::string(kName) + ": takes arrays (samples, channels, size) with a size of at least " +
        std::to_string(kShortestRow) + ", got " + text_of(sizes));
  }
  for (const Dimensions each : like) {
    if (text_of(each) == text_of(sizes)) continue;
    return ffi::Error::InvalidArgument(std::string(kName) + ": arrays " + text_of(sizes) + " and " +
                                       text_of(each) + " must have one shape");
  }
  for (const Dimensions each : vectors) {
    if (each.size() == 1 && each[0] == sizes[1]) continue;
    return ffi::Error::InvalidArgument(std::string(kName) + ": needs vectors of " +
                                       std::to_string(sizes[1]) + " channels, got " + text_of(each));
  }
  channels = {sizes[0], sizes[1], sizes[2]};
  return ffi::Error::Success();
}

ffi::Error standardize_of(ffi::ThreadPool threads, Array from, Array weight, Array bias,
                          float epsilon, Result to, Result mean, Result variance) {
  Channels channels;
  const ffi::Error error = channels_of(
      from.dimensions(), {to->dimensions()},
      {weight.dimensions(), bias.dimensions(), mean->dimensions(), variance->dimensions()},
      channels);
  if (error.failure()) return error;
  return run_safely(kName, [&] {
    standardize_channels(channels, from.typed_data(), weight.typed_data(), bias.typed_data(),
                         epsilon, to->typed_data(), mean->typed_data(), variance->typed_data(),
                         pool_of(threads));
  });
}

ffi::Error gradients_of(ffi::ThreadPool threads, Array cotangents, Array from, Array weight,
                        Array mean, Array variance, float epsilon, Result by_channels,
                        Result by_weight, Result by_bias) {
  Channels channels;
  const ffi::Error error =
      channels_of(from.dimensions(), {cotangents.dimensions(), by_channels->dimensions()},
                  {weight.dimensions(), mean.dimensions(), variance.dimensions(),
                   by_weight->dimensions(), by_bias->dimensions()},
                  channels);
  if (error.failure()) return error;
  return run_safely(kName, [&] {
    standardize_channels_gradients(
        channels, from.typed_data(), weight.typed_data(), mean.typed_data(), variance.typed_data(),
        cotangents.typed_data(), epsilon,
        {by_channels->typed_data(), by_weight->typed_data(), by_bias->typed_data()},
        pool_of(threads));
  });
}

auto with_threads() { return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>(); }

}  // namespace
}  // namespace flambeau

#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    flambeau_standardize_channels, flambeau::standardize_of,
    flambeau::with_results<3>(
        flambeau::with_arrays<3>(flambeau::with_threads()).Attr<float>("epsilon")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    flambeau_standardize_channels_gradients, flambeau::gradients_of,
    flambeau::with_results<3>(
        flambeau::with_arrays<5>(flambeau::with_threads()).Attr<float>("epsilon")));

#pragma GCC visibility pop
