// The threads that share loops.
//
// XLA's threads sleep between two loops, and to wake one takes 10 to 100 µs, as long as many a loop.
// These wait awake for a while, as OpenMP's do, but let other threads have the processor.

#include "pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace flambeau {
namespace {

// How long a thread waits awake.
constexpr std::chrono::microseconds kPatience{500};

// Waits until a condition is met, but no longer than that. Returns whether it is met.
template <typename Condition>
bool wait_awake(Condition is_met) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!is_met()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::yield();
  }
  return true;
}

class Loop {
 public:
  Loop(std::int64_t count, const std::function<void(std::int64_t)>& body)
      : count_(count), body_(body) {}

  // Computes items until all are taken. The body is not there any more when all are done.
  void take() {
    for (std::int64_t item; (item = next_.fetch_add(1)) < count_;) {
      try {
        body_(item);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex_);
        error_ = std::current_exception();
      }
      if (done_.fetch_add(1) + 1 == count_) {
        std::lock_guard<std::mutex> lock(mutex_);
        finished_.notify_all();
      }
    }
  }

  void wait() {
    const auto is_done = [this] { return done_.load() == count_; };
    if (!wait_awake(is_done)) {
      std::unique_lock<std::mutex> lock(mutex_);
      finished_.wait(lock, is_done);
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const std::int64_t count_;
  const std::function<void(std::int64_t)>& body_;
  std::atomic<std::int64_t> next_{0}, done_{0};
  std::mutex mutex_;
  std::condition_variable finished_;
  std::exception_ptr error_;  // of any thread, for the caller
};

// Threads that run until the process ends.
class Helpers {
 public:
  // Lets so many threads take part in a loop.
  void invite(const std::shared_ptr<Loop>& loop, int helpers) {
    std::lock_guard<std::mutex> lock(mutex_);
    try {
      for (; started_ < helpers; ++started_) std::thread([this] { work(); }).detach();
    } catch (const std::system_error&) {
      // The system gives no more threads: those that are there, or the caller, do it all.
    }
    places_.insert(places_.end(), helpers, loop);
    free_.store(places_.size());
    for (int each = 0; each < helpers; ++each) called_.notify_one();
  }

  // Withdraws the places that nobody has taken.
  void withdraw(const std::shared_ptr<Loop>& loop) {
    std::lock_guard<std::mutex> lock(mutex_);
    places_.erase(std::remove(places_.begin(), places_.end(), loop), places_.end());
    free_.store(places_.size());
  }

 private:
  [[noreturn]] void work() {
    for (;;) next()->take();
  }

  std::shared_ptr<Loop> next() {
    wait_awake([this] { return free_.load() > 0; });
    std::unique_lock<std::mutex> lock(mutex_);
    called_.wait(lock, [this] { return !places_.empty(); });
    std::shared_ptr<Loop> loop = std::move(places_.front());
    places_.pop_front();
    free_.store(places_.size());
    return loop;
  }

  std::mutex mutex_;
  std::condition_variable called_;
  int started_ = 0;
  std::deque<std::shared_ptr<Loop>> places_;  // one for each thread that may still join a loop
  std::atomic<std::size_t> free_{0};          // how many these are
};

Helpers& helpers() {
  // Never destroyed, since its threads outlive everything.
  static Helpers* const all = new Helpers;
  return *all;
}

}  // namespace

void parallel(const Pool& pool, std::int64_t count, const std::function<void(std::int64_t)>& body) {
  const int others = static_cast<int>(std::min<std::int64_t>(pool.threads, count)) - 1;
  if (others <= 0) {
    for (std::int64_t item = 0; item < count; ++item) body(item);
    return;
  }
  // A helper that joins after the last item has been taken finds the loop, and nothing else.
  const auto loop = std::make_shared<Loop>(count, body);
  helpers().invite(loop, others);
  loop->take();
  helpers().withdraw(loop);
  loop->wait();
}

}  // namespace flambeau
