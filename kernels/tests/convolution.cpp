// Convolutions beside loops that say what they compute.

#include "convolution.h"

#include "check.h"

namespace {

using flambeau::Convolution;
using flambeau::Pool;
using flambeau::Sizes;

std::int64_t size_of(const Sizes& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

Convolution any_shape() {
  Convolution shape;
  // Few samples and many take different ways.
  const bool has_many = between(0, 2) == 0;
  shape.samples = has_many ? between(8, 35) : between(1, 5);
  shape.groups = between(0, 3) == 0 ? between(2, 3) : 1;
  // Few channels and many take different ways.
  shape.inputs = between(0, 2) == 0 ? between(10, 50) : between(1, 9);
  shape.outputs = between(0, 2) == 0 ? between(20, 70) : between(1, 19);
  const std::int64_t dimensions = between(1, 3);
  for (int each = 0; each < 3; ++each) {
    const bool used = each >= 3 - dimensions;
    shape.kernel[each] = used ? between(1, 4) : 1;
    shape.stride[each] = used ? between(1, 3) : 1;
    shape.dilation[each] = used ? between(1, 3) : 1;
    shape.before[each] = used ? between(-1, 3) : 0;
    shape.result[each] = used ? between(1, has_many ? 7 - dimensions : dimensions == 3 ? 6 : 13) : 1;
    const std::int64_t reach = (shape.kernel[each] - 1) * shape.dilation[each];
    const std::int64_t all = (shape.result[each] - 1) * shape.stride[each] + reach + 1;
    // What lies behind the last tap: zeros, elements that no tap reaches, or neither.
    const std::int64_t after = used ? between(-2, 3) : 0;
    shape.image[each] = std::max<std::int64_t>(1, all - shape.before[each] - after);
  }
  return shape;
}

// Calls visit(image, filters, result) with the indices of each product that is summed.
template <typename Visit>
void products(const Convolution& shape, Visit visit) {
  const std::int64_t taps = size_of(shape.kernel);
  for (std::int64_t n = 0; n < shape.samples; ++n)
  for (std::int64_t g = 0; g < shape.groups; ++g)
  for (std::int64_t o = 0; o < shape.outputs; ++o)
  for (std::int64_t c = 0; c < shape.inputs; ++c)
  for (std::int64_t i = 0; i < size_of(shape.result); ++i)
  for (std::int64_t t = 0; t < taps; ++t) {
    const Sizes at{i / shape.result[2] / shape.result[1], i / shape.result[2] % shape.result[1],
                   i % shape.result[2]};
    const Sizes tap{t / shape.kernel[2] / shape.kernel[1], t / shape.kernel[2] % shape.kernel[1],
                    t % shape.kernel[2]};
    std::int64_t from = 0;
    bool inside = true;
    for (int each = 0; each < 3; ++each) {
      const std::int64_t place = at[each] * shape.stride[each] +
                                 tap[each] * shape.dilation[each] - shape.before[each];
      inside = inside && place >= 0 && place < shape.image[each];
      from = from * shape.image[each] + place;
    }
    if (!inside) continue;
    const std::int64_t input = (n * shape.groups + g) * shape.inputs + c;
    const std::int64_t output = g * shape.outputs + o;
    visit(input * size_of(shape.image) + from, (output * shape.inputs + c) * taps + t,
          (n * shape.groups * shape.outputs + output) * size_of(shape.result) + i);
  }
}

void compare(const char* name, const Convolution& shape, const std::vector<float>& expected,
             const std::vector<float>& found) {
  for (std::size_t each = 0; each < expected.size(); ++each) {
    if (expected[each] == found[each]) continue;
    std::printf("%s differs at %zu: %g instead of %g\n", name, each, found[each], expected[each]);
    std::printf("samples %ld groups %ld inputs %ld outputs %ld\n", long(shape.samples),
                long(shape.groups), long(shape.inputs), long(shape.outputs));
    for (int d = 0; d < 3; ++d) {
      std::printf("image %ld kernel %ld result %ld stride %ld before %ld dilation %ld\n",
                  long(shape.image[d]), long(shape.kernel[d]), long(shape.result[d]),
                  long(shape.stride[d]), long(shape.before[d]), long(shape.dilation[d]));
    }
    std::exit(1);
  }
}

}  // namespace

void check_convolution(const Pool& pool) {
  const Convolution shape = any_shape();
  const std::int64_t channels = shape.samples * shape.groups;
  const auto images = numbers(channels * shape.inputs * size_of(shape.image));
  const auto filters =
      numbers(shape.groups * shape.outputs * shape.inputs * size_of(shape.kernel));
  const auto cotangents = numbers(channels * shape.outputs * size_of(shape.result));

  std::vector<float> results(cotangents.size()), by_images(images.size()), by_filters(filters.size());
  products(shape, [&](std::int64_t image, std::int64_t filter, std::int64_t result) {
    results[result] += images[image] * filters[filter];
    by_images[image] += cotangents[result] * filters[filter];
    by_filters[filter] += cotangents[result] * images[image];
  });
  // Every element has to be written.
  std::vector<float> found(results.size(), NAN);
  flambeau::convolve(shape, images.data(), filters.data(), found.data(), pool);
  compare("the result", shape, results, found);
  found.assign(images.size(), NAN);
  flambeau::convolve_images(shape, cotangents.data(), filters.data(), found.data(), pool);
  compare("the gradient of the images", shape, by_images, found);
  found.assign(filters.size(), NAN);
  flambeau::convolve_filters(shape, cotangents.data(), images.data(), found.data(), pool);
  compare("the gradient of the filters", shape, by_filters, found);
}
