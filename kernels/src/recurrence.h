// Recurrent layers in one direction, over all steps: long short-term memory,
// https://doi.org/10.1162/neco.1997.9.8.1735, as PyTorch's documentation writes it.
//
// No sample's steps depend on another sample, so each thread computes all steps of some samples, and
// no thread waits for another. The weights are copied once into panels that the innermost loop reads
// in order; sums of products become gates while they are in registers.

#pragma once

#include <cstdint>

#include "pool.h"

namespace flambeau {

// Arrays are (steps, samples, width), or (samples, steps, width).
struct Lstm {
  std::int64_t steps;
  std::int64_t samples;
  std::int64_t features;
  std::int64_t size;  // of the hidden state
  bool samples_first;
  bool is_reverse;  // begins with the last step
};

struct LstmInputs {
  const float* input;
  const float* hidden;  // (samples, size), as all states
  const float* memory;
  const float* by_input;   // weights, (4 * size, features), in the order of gates i, f, g, o
  const float* by_hidden;  // weights, (4 * size, size)
  const float* bias;       // (4 * size)
};

struct LstmResults {
  float* outputs;
  float* memory;    // the last
  float* gates;     // (..., 4 * size), or null
  float* memories;  // after each step, or null
};

void run_lstm(const Lstm& layer, const LstmInputs& inputs, const LstmResults& results,
              const Pool& pool);

// What the gradient starts from: cotangents, and what was computed before.
struct LstmCotangents {
  const float* outputs;
  const float* hidden;  // of the last states
  const float* memory;
  const float* gates;
  const float* memories;
  const float* first_memory;
  const float* by_input;  // weights
  const float* by_hidden;
};

struct LstmGradients {
  float* gates;   // of their pre-activations; they may be written over the gates
  float* bias;    // (samples, 4 * size), the sums of these over the steps
  float* hidden;  // of the first states
  float* memory;
  float* input;  // or null
};

void run_lstm_gradient(const Lstm& layer, const LstmCotangents& given, const LstmGradients& results,
                       const Pool& pool);

// The gradients by the weights: sums over all steps and samples.
struct LstmCourse {
  const float* input;
  const float* hidden;  // the first states
  const float* outputs;
  const float* by_gates;  // as `run_lstm_gradient` gives them
};

void run_lstm_weights(const Lstm& layer, const LstmCourse& course, float* by_input, float* by_hidden,
                      const Pool& pool);

constexpr std::int64_t kGates = 4;

// Where the steps and samples of a layer's arrays are, in rows.
class Layout {
 public:
  explicit Layout(const Lstm& layer)
      : layer_(layer), step_(layer.samples_first ? 1 : layer.samples),
        sample_(layer.samples_first ? layer.steps : 1) {}

  std::int64_t row(std::int64_t step, std::int64_t sample) const {
    return step * step_ + sample * sample_;
  }
  // How many rows one sample is behind the one before.
  std::int64_t pitch() const { return sample_; }
  // The step that is computed as this one.
  std::int64_t step(std::int64_t turn) const {
    return layer_.is_reverse ? layer_.steps - 1 - turn : turn;
  }

 private:
  const Lstm& layer_;
  std::int64_t step_, sample_;
};

// One step of some samples. A pitch is how far one sample is behind the one before.
struct LstmStep {
  std::int64_t rows;
  std::int64_t features;
  std::int64_t size;
  // For each vector of units: a row of the bias and then one for each feature and each unit of the
  // hidden state, of four vectors, one for each gate.
  const float* panels;
  const float* input;
  std::int64_t input_pitch;
  const float* hidden;
  std::int64_t hidden_pitch;
  const float* memory;
  std::int64_t memory_pitch;
  float* output;
  std::int64_t output_pitch;
  float* new_memory;  // may be `memory`
  std::int64_t new_memory_pitch;
  float* gates;  // or null
  std::int64_t gates_pitch;
};

// The same step of the gradient, up to the pre-activations.
struct LstmStepGradient {
  std::int64_t rows;
  std::int64_t size;
  std::int64_t pitch;  // between rows of outputs
  const float* outputs;  // cotangents
  const float* gates;
  const float* memories;
  const float* before;  // the memory
  std::int64_t before_pitch;
  const float* hidden;  // cotangents of the state after the step
  float* memory;        // the same; afterwards those before the step
  float* by_gates;  // may be `gates`
  float* by_bias;   // to which they are added
  float* copy;      // of them, without gaps between rows
};

// out[i][j] = sum over t of left[i * left_row + t * left_term] * right[t][j], or that much more where
// it adds.
struct PanelProduct {
  std::int64_t rows;
  std::int64_t terms;
  std::int64_t columns;
  const float* left;
  std::int64_t left_row;
  std::int64_t left_term;
  // For each `vectors` vectors of columns, a row for each term; zeros behind the last column.
  const float* panels;
  float* out;
  std::int64_t out_pitch;
  bool adds;
};

struct RecurrentLoops {
  int lanes;
  int vectors;  // of a panel
  int rows;     // of sums that are computed at once, at most
  void (*lstm_step)(const LstmStep& step);
  void (*lstm_step_gradient)(const LstmStepGradient& step);
  void (*multiply)(const PanelProduct& product);
  // to[t * rows + i] = from[t * pitch + i] for `count` columns i, at most `rows`
  void (*gather)(std::int64_t terms, int count, const float* from, std::int64_t pitch, float* to);
};

// The loops for this processor.
const RecurrentLoops& recurrent_loops();

}  // namespace flambeau
