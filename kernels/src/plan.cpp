#include "plan.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace flambeau {
bool is_possible(const Convolution& shape) {
  const std::int64_t most = std::numeric_limits<std::int32_t>::max() / 4;
  // Also with channels filled up to whole vectors.
  const std::int64_t inputs = round_up(shape.inputs, 64), outputs = round_up(shape.outputs, 64);
  if (inputs * outputs * product_of(shape.kernel) > most) return false;
  if (inputs * product_of(extent_of(shape)) > most) return false;
  for (const Plan& plan : {plan_of_results(shape), plan_of_images(shape)}) {
    if (std::max(inputs, outputs) * plan.channel_size() > most) return false;
  }
  return true;
}

Sizes extent_of(const Convolution& shape) {
  Sizes extent;
  for (int each = 0; each < 3; ++each) {
    extent[each] = (shape.result[each] - 1) * shape.stride[each] +
                   (shape.kernel[each] - 1) * shape.dilation[each] + 1;
  }
  return extent;
}

Plan plan_of_results(const Convolution& shape) {
  Plan plan;
  plan.source = shape.image;
  Sizes remainders;
  for (int each = 0; each < 3; ++each) {
    const std::int64_t reach = (shape.kernel[each] - 1) * shape.dilation[each];
    remainders[each] = std::min(shape.stride[each], reach + 1);
    plan.size[each] = shape.result[each] + reach / shape.stride[each];
  }
  for_each(remainders, [&](std::int64_t, const Sizes& remainder) {
    Image image;
    for (int each = 0; each < 3; ++each) {
      image.start[each] = remainder[each] - shape.before[each];
      image.step[each] = shape.stride[each];
    }
    plan.images.push_back(image);
  });
  Pass pass{shape.result, {0, 0, 0}, {1, 1, 1}, {}, {}};
  for_each(shape.kernel, [&](std::int64_t tap, const Sizes& at) {
    std::int64_t image = 0;
    Sizes shift;
    for (int each = 0; each < 3; ++each) {
      const std::int64_t distance = at[each] * shape.dilation[each];
      image = image * remainders[each] + distance % shape.stride[each];
      shift[each] = distance / shape.stride[each];
    }
    pass.taps.push_back(tap);
    pass.shifts.push_back(image * plan.image_size() + plan.shift_of(shift));
  });
  plan.passes.push_back(pass);
  return plan;
}

// Element i of an image, with i + before = j * stride + remainder, has met the taps at the distance
// q * stride + remainder, for result j - q.
Plan plan_of_images(const Convolution& shape) {
  Plan plan;
  plan.source = shape.result;
  Sizes furthest, begin, end;
  for (int each = 0; each < 3; ++each) {
    const std::int64_t stride = shape.stride[each], before = shape.before[each];
    furthest[each] = (shape.kernel[each] - 1) * shape.dilation[each] / stride;
    // Bounds of j over all remainders.
    begin[each] = floor_div(before, stride);
    end[each] = floor_div(shape.image[each] - 1 + before, stride) + 1;
    plan.size[each] = end[each] - begin[each] + furthest[each];
  }
  Image image;
  for (int each = 0; each < 3; ++each) {
    image.start[each] = begin[each] - furthest[each];
    image.step[each] = 1;
  }
  plan.images.push_back(image);
  for_each(shape.stride, [&](std::int64_t, const Sizes& remainder) {
    Pass pass;
    Sizes first;
    for (int each = 0; each < 3; ++each) {
      const std::int64_t stride = shape.stride[each];
      const std::int64_t offset = remainder[each] - shape.before[each];
      // The first and the last j of an element in the image.
      first[each] = ceil_div(-offset, stride);
      pass.count[each] = floor_div(shape.image[each] - 1 - offset, stride) - first[each] + 1;
      pass.start[each] = first[each] * stride + offset;
      pass.step[each] = stride;
      if (pass.count[each] <= 0) return;
    }
    for_each(shape.kernel, [&](std::int64_t tap, const Sizes& at) {
      Sizes shift;
      for (int each = 0; each < 3; ++each) {
        const std::int64_t distance = at[each] * shape.dilation[each];
        if (distance % shape.stride[each] != remainder[each]) return;
        shift[each] = first[each] - begin[each] + furthest[each] - distance / shape.stride[each];
      }
      pass.taps.push_back(tap);
      pass.shifts.push_back(plan.shift_of(shift));
    });
    plan.passes.push_back(pass);
  });
  return plan;
}

Places places_of(const Plan& plan, const Pass& pass, const Sizes& target) {
  Places places;
  for_each(pass.count, [&](std::int64_t, const Sizes& at) {
    places.positions.push_back(plan.shift_of(at));
    std::int64_t index = 0;
    for (int each = 0; each < 3; ++each) {
      index = index * target[each] + at[each] * pass.step[each] + pass.start[each];
    }
    places.targets.push_back(index);
  });
  return places;
}

void copy_channel(const Plan& plan, const float* source, float* copy) {
  const auto [depth, height, width] = plan.source;
  for (const Image& image : plan.images) {
    const std::int64_t start = image.start[2], step = image.step[2];
    const std::int64_t row = plan.size[2];
    const std::int64_t begin =
        std::min(row, start >= 0 ? 0 : ceil_div(-start, step));
    const std::int64_t end =
        start >= width ? begin : std::clamp((width - 1 - start) / step + 1, begin, row);
    for (std::int64_t d = 0; d < plan.size[0]; ++d) {
      const std::int64_t from_d = d * image.step[0] + image.start[0];
      for (std::int64_t h = 0; h < plan.size[1]; ++h, copy += row) {
        const std::int64_t from_h = h * image.step[1] + image.start[1];
        if (from_d < 0 || from_d >= depth || from_h < 0 || from_h >= height || begin == end) {
          std::memset(copy, 0, row * sizeof(float));
          continue;
        }
        const float* from = source + (from_d * height + from_h) * width;
        std::memset(copy, 0, begin * sizeof(float));
        if (step == 1) {
          std::memcpy(copy + begin, from + begin + start, (end - begin) * sizeof(float));
        } else {
          for (std::int64_t w = begin; w < end; ++w) copy[w] = from[w * step + start];
        }
        std::memset(copy + end, 0, (row - end) * sizeof(float));
      }
    }
  }
}

void store(const Plan& plan, const Pass& pass, const Sizes& target, std::int64_t begin,
           std::int64_t end, const float* found, float* to) {
  const std::int64_t row = plan.size[2], height = plan.size[1];
  for (std::int64_t line = begin / row; line * row < end; ++line) {
    const std::int64_t d = line / height, h = line % height;
    if (h >= pass.count[1]) continue;
    const std::int64_t first = std::max<std::int64_t>(begin - line * row, 0);
    const std::int64_t last = std::min(end - line * row, pass.count[2]);
    if (first >= last) continue;
    const float* from = found + line * row - begin;
    const std::int64_t step = pass.step[2];
    float* into = to + ((d * pass.step[0] + pass.start[0]) * target[1] + h * pass.step[1] +
                        pass.start[1]) * target[2] + pass.start[2];
    if (step == 1) {
      std::memcpy(into + first, from + first, (last - first) * sizeof(float));
    } else {
      for (std::int64_t w = first; w < last; ++w) into[w * step] = from[w];
    }
  }
}

}  // namespace flambeau
