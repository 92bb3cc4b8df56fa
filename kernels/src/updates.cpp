#include "updates.h"

#include <algorithm>
#include <cmath>

namespace flambeau {
namespace {

// So many elements are one item of work: small arrays share one, large ones have several.
constexpr std::int64_t kItem = 16 * 1024;

// The arrays one after the other, cut into items of equal size.
class Items {
 public:
  explicit Items(const Sizes& sizes) : ends_(sizes) {
    for (std::size_t each = 1; each < ends_.size(); ++each) ends_[each] += ends_[each - 1];
  }

  std::int64_t count() const {
    return ends_.empty() ? 0 : (ends_.back() + kItem - 1) / kItem;
  }

  // Calls visit(array, first, last) for each part of an array that an item has.
  template <typename Visit>
  void visit(std::int64_t item, Visit visit) const {
    std::int64_t at = item * kItem;
    const std::int64_t end = std::min(at + kItem, ends_.back());
    std::size_t array = std::upper_bound(ends_.begin(), ends_.end(), at) - ends_.begin();
    for (; at < end; at = std::min(end, ends_[array]), ++array) {
      const std::int64_t start = array == 0 ? 0 : ends_[array - 1];
      if (ends_[array] > start) visit(array, at - start, std::min(end, ends_[array]) - start);
    }
  }

 private:
  std::vector<std::int64_t> ends_;
};

}  // namespace

void adam(const Sizes& sizes, const std::vector<AdamNumbers>& numbers,
          const std::vector<AdamArrays>& arrays, const Pool& pool) {
  const Items items(sizes);
  parallel(pool, items.count(), [&](std::int64_t item) {
    items.visit(item, [&](std::size_t array, std::int64_t first, std::int64_t last) {
      update_loops().adam(first, last, numbers[array], arrays[array]);
    });
  });
}

void sgd(const Sizes& sizes, const SgdNumbers& numbers, const std::vector<SgdArrays>& arrays,
         const Pool& pool) {
  const Items items(sizes);
  parallel(pool, items.count(), [&](std::int64_t item) {
    items.visit(item, [&](std::size_t array, std::int64_t first, std::int64_t last) {
      update_loops().sgd(first, last, numbers, arrays[array]);
    });
  });
}

float norm(const Sizes& sizes, const std::vector<const float*>& from, const Pool& pool) {
  const Items items(sizes);
  std::vector<double> sums(items.count());
  parallel(pool, items.count(), [&](std::int64_t item) {
    items.visit(item, [&](std::size_t array, std::int64_t first, std::int64_t last) {
      sums[item] += update_loops().sum_of_squares(first, last, from[array]);
    });
  });
  double total = 0;
  for (const double each : sums) total += each;
  return static_cast<float>(std::sqrt(total));
}

void scale(const Sizes& sizes, float factor, const std::vector<const float*>& from,
           const std::vector<float*>& to, const Pool& pool) {
  const Items items(sizes);
  parallel(pool, items.count(), [&](std::int64_t item) {
    items.visit(item, [&](std::size_t array, std::int64_t first, std::int64_t last) {
      update_loops().scale(first, last, factor, from[array], to[array]);
    });
  });
}

}  // namespace flambeau
