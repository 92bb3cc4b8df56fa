// Memory for intermediate results.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace flambeau {

// Numbers that belong to this object while it lives. Each thread keeps its largest block for the
// next call, because memory from the system has to be filled with zeros first.
class Memory {
 public:
  explicit Memory(std::int64_t count) {
    Block& kept = block();
    if (kept.size < count) {
      kept.data.reset();
      kept.size = 0;
      const std::size_t bytes = (count * sizeof(float) + kLine - 1) / kLine * kLine;
      float* found = static_cast<float*>(std::aligned_alloc(kLine, bytes));
      if (found == nullptr) throw std::bad_alloc();
      kept.data.reset(found);
      kept.size = count;
    }
    data_ = kept.data.get();
  }
  float* data() const { return data_; }

 private:
  static constexpr std::size_t kLine = 64;
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  struct Block {
    std::unique_ptr<float, Free> data;
    std::int64_t size = 0;
  };
  static Block& block() {
    thread_local Block kept;
    return kept;
  }
  float* data_;
};

}  // namespace flambeau
