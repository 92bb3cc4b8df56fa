// Max pooling beside plain loops over the taps of each window.

#include "maxima.h"

#include <limits>

#include "check.h"

namespace {

flambeau::Pooling some_windows() {
  flambeau::Pooling shape;
  shape.planes = between(1, 6);
  // Up to three dimensions, of which the last is often longer than several vectors.
  const std::int64_t spatial = between(1, 3);
  for (int each = 0; each < 3; ++each) {
    const bool used = each >= 3 - spatial;
    shape.kernel[each] = used ? between(1, 5) : 1;
    shape.stride[each] = used ? between(1, 4) : 1;
    shape.dilation[each] = used ? between(1, 3) : 1;
    shape.before[each] = used ? between(0, shape.kernel[each] / 2) : 0;
    const std::int64_t reach = shape.dilation[each] * (shape.kernel[each] - 1) + 1;
    const std::int64_t least = std::max<std::int64_t>(1, reach - 2 * shape.before[each]);
    shape.image[each] = used ? least + between(0, each == 2 && between(0, 1) == 0 ? 90 : 12) : 1;
    const std::int64_t room = shape.image[each] + 2 * shape.before[each] - reach;
    // The last window may reach behind the image.
    shape.result[each] = (room + (between(0, 1) == 0 ? shape.stride[each] - 1 : 0)) / shape.stride[each] + 1;
  }
  return shape;
}

[[noreturn]] void fail(const char* name, const flambeau::Pooling& shape, std::int64_t at) {
  std::printf("%s differs at %ld, image", name, long(at));
  for (const std::int64_t each : shape.image) std::printf(" %ld", long(each));
  std::printf(", kernel");
  for (const std::int64_t each : shape.kernel) std::printf(" %ld", long(each));
  std::printf("\n");
  std::exit(1);
}

bool are_same(float one, float other) { return one == other || (one != one && other != other); }

}  // namespace

void check_maxima(const flambeau::Pool& pool) {
  const flambeau::Pooling shape = some_windows();
  if (!flambeau::is_possible(shape)) return;
  const std::int64_t windows = shape.windows(), pixels = shape.pixels();
  std::vector<float> images = numbers(shape.planes * pixels);
  const std::vector<float> cotangents = numbers(shape.planes * windows);
  const float infinity = std::numeric_limits<float>::infinity();
  for (float& each : images) {
    if (const std::int64_t kind = between(0, 40); kind < 4) each = kind == 0 ? NAN : -infinity;
  }

  std::vector<float> maxima, slopes(images.size());
  std::vector<std::int32_t> taps;
  for (std::int64_t plane = 0; plane < shape.planes; ++plane) {
    for (std::int64_t window = 0; window < windows; ++window) {
      const std::int64_t place[3] = {window / (shape.result[1] * shape.result[2]),
                                     window / shape.result[2] % shape.result[1],
                                     window % shape.result[2]};
      float best = -infinity;
      std::int64_t found = -1, at = 0;
      for (std::int64_t tap = 0; tap < shape.taps(); ++tap) {
        const std::int64_t step[3] = {tap / (shape.kernel[1] * shape.kernel[2]),
                                      tap / shape.kernel[2] % shape.kernel[1],
                                      tap % shape.kernel[2]};
        std::int64_t pixel = 0;
        bool is_inside = true;
        for (int each = 0; each < 3; ++each) {
          const std::int64_t position = place[each] * shape.stride[each] - shape.before[each] +
                                        step[each] * shape.dilation[each];
          is_inside = is_inside && position >= 0 && position < shape.image[each];
          pixel = pixel * shape.image[each] + position;
        }
        if (!is_inside) continue;
        const float value = images[plane * pixels + pixel];
        if (found >= 0 && !(value > best) && value == value) continue;
        best = value, found = tap, at = plane * pixels + pixel;
      }
      maxima.push_back(best);
      taps.push_back(static_cast<std::int32_t>(found));
      slopes[at] += cotangents[plane * windows + window];
    }
  }

  // Every element has to be written.
  std::vector<float> found(maxima.size(), 77), by_images(images.size(), NAN);
  std::vector<std::int32_t> places(taps.size(), -1);
  flambeau::max_pool(shape, images.data(), found.data(), places.data(), pool);
  for (std::size_t each = 0; each < maxima.size(); ++each) {
    if (!are_same(maxima[each], found[each])) fail("a maximum", shape, each);
    if (taps[each] != places[each]) fail("the place of a maximum", shape, each);
  }
  flambeau::max_pool_gradient(shape, cotangents.data(), places.data(), by_images.data(), pool);
  for (std::size_t each = 0; each < images.size(); ++each) {
    if (slopes[each] != by_images[each]) fail("the gradient of maxima", shape, each);
  }
}
