// Compiled several times: FLAMBEAU_MAXIMUM_LOOPS names the result.

#include "maxima.h"

#include "vector.h"

namespace flambeau {
namespace {

typedef std::int32_t Taps __attribute__((vector_size(kLanes * sizeof(float))));
typedef std::int32_t UnalignedTaps
    __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float))));

template <int kStride>
void take_by(std::int64_t count, const float* from, float* to) {
  for (std::int64_t each = 0; each < count; ++each) to[each] = from[each * kStride];
}

void take_each(std::int64_t count, std::int64_t stride, const float* from, float* to) {
  if (stride == 1) return take_by<1>(count, from, to);
  if (stride == 2) return take_by<2>(count, from, to);
  for (std::int64_t each = 0; each < count; ++each) to[each] = from[each * stride];
}

void maxima(const WindowRow& given, float* maxima, std::int32_t* taps) {
  const WindowRow row = given;
  for (std::int64_t at = 0; at < row.count; at += kLanes) {
    Vector best = Vector{} - __builtin_inff();
    Taps found = *reinterpret_cast<const UnalignedTaps*>(row.first + at) + row.numbers[0];
    for (std::int64_t line = 0; line < row.height; ++line) {
      const float* const from = row.rows[line] + at;
      for (std::int64_t tap = 0; tap < row.width; ++tap) {
        const Vector value = load(from + row.shifts[tap]);
        const Taps number = Taps{} + (row.numbers[line] + static_cast<std::int32_t>(tap));
        const Taps is_better = (value > best) | (value != value);
        best = is_better ? value : best;
        found = is_better ? number : found;
      }
    }
    if (at + kLanes <= row.count) {
      store(maxima + at, best);
      *reinterpret_cast<UnalignedTaps*>(taps + at) = found;
    } else {
      store_part(maxima + at, best, static_cast<int>(row.count - at));
      for (int lane = 0; lane < row.count - at; ++lane) taps[at + lane] = found[lane];
    }
  }
}

}  // namespace

extern const MaximumLoops FLAMBEAU_MAXIMUM_LOOPS;
const MaximumLoops FLAMBEAU_MAXIMUM_LOOPS = {kLanes, take_each, maxima};

}  // namespace flambeau
