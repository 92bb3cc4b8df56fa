#include "recurrence.h"

#include <algorithm>

#include "memory.h"
#include "plan.h"
#include "transpose.h"

namespace flambeau {
namespace {

// Calls body(first, last) for as many parts of the samples as there are threads.
template <typename Body>
void share(const Pool& pool, const Lstm& layer, Body body) {
  const std::int64_t parts = std::min<std::int64_t>(pool.threads, layer.samples);
  parallel(pool, parts, [&](std::int64_t part) {
    body(layer.samples * part / parts, layer.samples * (part + 1) / parts);
  });
}

// Weights and bias in the order of `LstmStep`.
class StepPanels {
 public:
  StepPanels(const Lstm& layer, int lanes)
      : layer_(layer), lanes_(lanes), row_(kGates * lanes), count_(ceil_div(layer.size, lanes)),
        panel_((1 + layer.features + layer.size) * row_) {}

  std::int64_t numbers() const { return count_ * panel_; }

  void fill(const LstmInputs& inputs, float* to, const Pool& pool) const {
    parallel(pool, count_, [&](std::int64_t each) {
      const std::int64_t unit = each * lanes_;
      const std::int64_t units = std::min<std::int64_t>(lanes_, layer_.size - unit);
      float* panel = to + each * panel_;
      if (units < lanes_) std::fill_n(panel, panel_, 0.0f);
      for (std::int64_t gate = 0; gate < kGates; ++gate, panel += lanes_) {
        const std::int64_t row = gate * layer_.size + unit;
        std::copy_n(inputs.bias + row, units, panel);
        transpose(units, layer_.features, inputs.by_input + row * layer_.features, layer_.features,
                  panel + row_, row_);
        transpose(units, layer_.size, inputs.by_hidden + row * layer_.size, layer_.size,
                  panel + (1 + layer_.features) * row_, row_);
      }
    });
  }

 private:
  const Lstm& layer_;
  std::int64_t lanes_, row_, count_, panel_;
};

// A matrix (terms, columns) in the order of `PanelProduct`.
class ColumnPanels {
 public:
  ColumnPanels(std::int64_t terms, std::int64_t columns, const RecurrentLoops& loops)
      : terms_(terms), columns_(columns), width_(round_up(columns, loops.lanes)),
        panel_(loops.vectors * loops.lanes) {}

  std::int64_t numbers() const { return terms_ * width_; }

  void fill(const float* from, float* to, const Pool& pool) const {
    parallel(pool, ceil_div(columns_, panel_), [&](std::int64_t each) {
      const std::int64_t column = each * panel_, own = std::min(panel_, width_ - column);
      const std::int64_t there = std::min(own, columns_ - column);
      float* panel = to + column * terms_;
      for (std::int64_t term = 0; term < terms_; ++term, panel += own) {
        std::copy_n(from + term * columns_ + column, there, panel);
        std::fill(panel + there, panel + own, 0.0f);
      }
    });
  }

 private:
  std::int64_t terms_, columns_, width_, panel_;
};

}  // namespace

void run_lstm(const Lstm& layer, const LstmInputs& inputs, const LstmResults& results,
              const Pool& pool) {
  const RecurrentLoops& loops = recurrent_loops();
  const StepPanels panels(layer, loops.lanes);
  const Layout layout(layer);
  const std::int64_t size = layer.size, pitch = layout.pitch();
  Memory memory(panels.numbers());
  panels.fill(inputs, memory.data(), pool);
  share(pool, layer, [&](std::int64_t first, std::int64_t last) {
    const float* hidden = inputs.hidden + first * size;
    const float* before = inputs.memory + first * size;
    std::int64_t hidden_pitch = size, before_pitch = size;
    for (std::int64_t turn = 0; turn < layer.steps; ++turn) {
      const std::int64_t row = layout.row(layout.step(turn), first);
      const bool keeps = results.memories != nullptr;
      LstmStep step;
      step.rows = last - first;
      step.features = layer.features;
      step.size = size;
      step.panels = memory.data();
      step.input = inputs.input + row * layer.features;
      step.input_pitch = pitch * layer.features;
      step.hidden = hidden;
      step.hidden_pitch = hidden_pitch;
      step.memory = before;
      step.memory_pitch = before_pitch;
      step.output = results.outputs + row * size;
      step.output_pitch = pitch * size;
      step.new_memory = keeps ? results.memories + row * size : results.memory + first * size;
      step.new_memory_pitch = keeps ? pitch * size : size;
      step.gates = results.gates == nullptr ? nullptr : results.gates + row * kGates * size;
      step.gates_pitch = pitch * kGates * size;
      loops.lstm_step(step);
      hidden = step.output;
      hidden_pitch = step.output_pitch;
      before = step.new_memory;
      before_pitch = step.new_memory_pitch;
    }
    for (std::int64_t sample = first; sample < last; ++sample) {
      const float* own = before + (sample - first) * before_pitch;
      if (own != results.memory + sample * size) {
        std::copy_n(own, size, results.memory + sample * size);
      }
    }
  });
}

void run_lstm_gradient(const Lstm& layer, const LstmCotangents& given, const LstmGradients& results,
                       const Pool& pool) {
  const RecurrentLoops& loops = recurrent_loops();
  const Layout layout(layer);
  const std::int64_t size = layer.size, width = kGates * size, pitch = layout.pitch();
  const ColumnPanels of_hidden(width, size, loops), of_input(width, layer.features, loops);
  const bool has_input = results.input != nullptr;
  Memory memory(of_hidden.numbers() + (has_input ? of_input.numbers() : 0) + layer.samples * width);
  float* by_hidden = memory.data();
  float* by_input = by_hidden + of_hidden.numbers();
  float* copies = by_input + (has_input ? of_input.numbers() : 0);
  of_hidden.fill(given.by_hidden, by_hidden, pool);
  if (has_input) of_input.fill(given.by_input, by_input, pool);
  share(pool, layer, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t rows = last - first;
    float* copy = copies + first * width;
    float* hidden = results.hidden + first * size;
    std::copy_n(given.hidden + first * size, rows * size, hidden);
    std::copy_n(given.memory + first * size, rows * size, results.memory + first * size);
    std::fill_n(results.bias + first * width, rows * width, 0.0f);
    for (std::int64_t turn = layer.steps; turn-- > 0;) {
      const std::int64_t row = layout.row(layout.step(turn), first);
      const bool is_first = turn == 0;
      LstmStepGradient step;
      step.rows = rows;
      step.size = size;
      step.pitch = pitch;
      step.outputs = given.outputs + row * size;
      step.gates = given.gates + row * width;
      step.memories = given.memories + row * size;
      step.before = is_first ? given.first_memory + first * size
                             : given.memories + layout.row(layout.step(turn - 1), first) * size;
      step.before_pitch = is_first ? size : pitch * size;
      step.hidden = hidden;
      step.memory = results.memory + first * size;
      step.by_gates = results.gates + row * width;
      step.by_bias = results.bias + first * width;
      step.copy = copy;
      loops.lstm_step_gradient(step);
      loops.multiply({rows, width, size, copy, width, 1, by_hidden, hidden, size, false});
      if (!has_input) continue;
      loops.multiply({rows, width, layer.features, copy, width, 1, by_input,
                      results.input + row * layer.features, pitch * layer.features, false});
    }
  });
}

}  // namespace flambeau
