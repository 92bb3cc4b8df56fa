// Work that is shared by several threads.

#pragma once

#include <cstdint>
#include <functional>

namespace flambeau {

struct Pool {
  // How many threads a kernel may use, the caller among them.
  int threads = 1;
};

// Calls body(item) for each item below count, on several threads, and returns when all are done.
//
// The caller takes items as well. It waits only for items that another thread has begun, so the
// call ends even if all other threads are busy, for example with loops of other callers.
void parallel(const Pool& pool, std::int64_t count, const std::function<void(std::int64_t)>& body);

}  // namespace flambeau
