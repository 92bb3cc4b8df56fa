// Work that is shared by the threads of a pool.

#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace flambeau {

// The threads that a kernel may use beside the one that calls it.
struct Pool {
  // How many threads there are, the caller among them.
  int threads = 1;
  // Runs a task on some thread, later or at once.
  std::function<void(std::function<void()>)> schedule;
};

// Calls body(item) for each item below count, on several threads, and returns when all are done.
//
// The caller takes items as well. It waits only for items that another thread has begun, so the
// call ends even if the pool's threads are all busy, for example with callers of their own.
inline void parallel(const Pool& pool, std::int64_t count,
                     const std::function<void(std::int64_t)>& body) {
  const int helpers = static_cast<int>(std::min<std::int64_t>(pool.threads, count)) - 1;
  if (helpers <= 0 || !pool.schedule) {
    for (std::int64_t item = 0; item < count; ++item) body(item);
    return;
  }
  struct State {
    std::atomic<std::int64_t> next{0};
    std::atomic<std::int64_t> done{0};
    std::mutex mutex;
    std::condition_variable finished;
  };
  // A helper that starts after the last item has been taken finds the state, and nothing else.
  auto state = std::make_shared<State>();
  const auto take = [count](State& state, const std::function<void(std::int64_t)>* body) {
    for (std::int64_t item; (item = state.next.fetch_add(1)) < count;) {
      (*body)(item);
      if (state.done.fetch_add(1) + 1 == count) {
        std::lock_guard<std::mutex> lock(state.mutex);
        state.finished.notify_all();
      }
    }
  };
  for (int helper = 0; helper < helpers; ++helper) {
    pool.schedule([state, take, body = &body] { take(*state, body); });
  }
  take(*state, &body);
  std::unique_lock<std::mutex> lock(state->mutex);
  state->finished.wait(lock, [&] { return state->done.load() == count; });
}

}  // namespace flambeau
