// Rows that threads divide among each other.

#pragma once

#include <algorithm>
#include <cstdint>

#include "pool.h"

namespace flambeau {

struct Rows {
  std::int64_t count;
  std::int64_t size;
};

// Into how many parts rows are divided: fewer numbers than this are not worth a thread.
inline std::int64_t parts_of(const Pool& pool, const Rows& rows) {
  constexpr std::int64_t kLeastForThread = 16 * 1024;
  const std::int64_t most = rows.count * rows.size / kLeastForThread;
  return std::clamp<std::int64_t>(std::min(most, rows.count), 1, pool.threads);
}

// Calls body(part, first, last) for parts of the rows, of which threads have one each.
template <typename Body>
void share(const Pool& pool, const Rows& rows, std::int64_t parts, Body body) {
  parallel(pool, parts, [&](std::int64_t part) {
    body(part, rows.count * part / parts, rows.count * (part + 1) / parts);
  });
}

}  // namespace flambeau
