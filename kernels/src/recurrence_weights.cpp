// The gradients by the weights of a recurrent layer: one product of matrices over all steps.

#include <algorithm>

#include "memory.h"
#include "plan.h"
#include "recurrence.h"

namespace flambeau {
namespace {

// Steps of samples that are summed at once, and panels that meet them: both stay in a core's cache.
constexpr std::int64_t kMostTerms = 128;
constexpr std::int64_t kMostPanels = 4;

class WeightSums {
 public:
  WeightSums(const Lstm& layer, const LstmCourse& course, float* by_input, float* by_hidden)
      : layer_(layer), course_(course), by_input_(by_input), by_hidden_(by_hidden) {}

  void run(const Pool& pool) const {
    const std::int64_t blocks = ceil_div(width_, loops_.rows);
    const std::int64_t parts = std::min<std::int64_t>(pool.threads, blocks);
    parallel(pool, parts, [&](std::int64_t part) {
      const auto column = [&](std::int64_t each) {
        return std::min(width_, blocks * each / parts * loops_.rows);
      };
      sum(column(part), column(part + 1));
    });
  }

 private:
  // Columns of the inputs, or of the hidden states.
  struct Panel {
    bool is_input;
    std::int64_t column;
    std::int64_t columns;
  };

  Panel panel(std::int64_t number) const {
    const bool is_input = number < input_panels_;
    const std::int64_t column = (is_input ? number : number - input_panels_) * panel_;
    const std::int64_t all = is_input ? layer_.features : layer_.size;
    return {is_input, column, std::min(panel_, all - column)};
  }

  // What the weights are multiplied with in a row of the arrays.
  const float* factors(bool is_input, std::int64_t row) const {
    if (is_input) return course_.input + row * layer_.features;
    const std::int64_t outer = row / inner_, inner = row % inner_;
    const std::int64_t step = layer_.samples_first ? inner : outer;
    const std::int64_t sample = layer_.samples_first ? outer : inner;
    if (step == layout_.step(0)) return course_.hidden + sample * layer_.size;
    return course_.outputs + layout_.row(layer_.is_reverse ? step + 1 : step - 1, sample) * layer_.size;
  }

  void copy(const Panel& panel, std::int64_t row, std::int64_t rows, float* to) const {
    const std::int64_t own = round_up(panel.columns, loops_.lanes);
    for (const std::int64_t end = row + rows; row < end; ++row, to += own) {
      std::copy_n(factors(panel.is_input, row) + panel.column, panel.columns, to);
      std::fill(to + panel.columns, to + own, 0.0f);
    }
  }

  // The weights of the gates from `first` to `last`.
  void sum(std::int64_t first, std::int64_t last) const {
    Memory memory(kMostTerms * (kMostPanels * panel_ + loops_.rows));
    float* left = memory.data() + kMostTerms * kMostPanels * panel_;
    const std::int64_t panels = input_panels_ + ceil_div(layer_.size, panel_);
    const std::int64_t rows = layer_.steps * layer_.samples;
    for (std::int64_t begin = 0; begin < panels; begin += kMostPanels) {
      const std::int64_t end = std::min(panels, begin + kMostPanels);
      for (std::int64_t row = 0; row < rows; row += kMostTerms) {
        const std::int64_t terms = std::min(kMostTerms, rows - row);
        const auto right = [&](std::int64_t number) {
          return memory.data() + (number - begin) * kMostTerms * panel_;
        };
        for (std::int64_t each = begin; each < end; ++each) {
          copy(panel(each), row, terms, right(each));
        }
        for (std::int64_t gate = first; gate < last; gate += loops_.rows) {
          const int count = static_cast<int>(std::min<std::int64_t>(loops_.rows, last - gate));
          loops_.gather(terms, count, course_.by_gates + row * width_ + gate, width_, left);
          for (std::int64_t each = begin; each < end; ++each) {
            const Panel own = panel(each);
            const std::int64_t pitch = own.is_input ? layer_.features : layer_.size;
            float* out = (own.is_input ? by_input_ : by_hidden_) + gate * pitch + own.column;
            loops_.multiply({count, terms, own.columns, left, 1, loops_.rows, right(each), out,
                             pitch, row > 0});
          }
        }
      }
    }
  }

  const Lstm& layer_;
  const LstmCourse& course_;
  float* by_input_;
  float* by_hidden_;
  const RecurrentLoops& loops_ = recurrent_loops();
  const Layout layout_{layer_};
  const std::int64_t inner_ = layer_.samples_first ? layer_.steps : layer_.samples;
  const std::int64_t width_ = kGates * layer_.size;
  const std::int64_t panel_ = loops_.vectors * loops_.lanes;
  const std::int64_t input_panels_ = ceil_div(layer_.features, panel_);
};

}  // namespace

void run_lstm_weights(const Lstm& layer, const LstmCourse& course, float* by_input, float* by_hidden,
                      const Pool& pool) {
  WeightSums(layer, course, by_input, by_hidden).run(pool);
}

}  // namespace flambeau
