// Long short-term memory beside its formulas in double precision.

#include "recurrence.h"

#include <algorithm>

#include "check.h"

namespace {

using Doubles = std::vector<double>;
using Floats = std::vector<float>;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

Floats fractions(std::int64_t count) {
  Floats found = numbers(count);
  for (float& each : found) each *= 0.25f;
  return found;
}

// One direction, one sample and step after the other.
struct Course {
  explicit Course(const flambeau::Lstm& layer)
      : layer(layer), rows(layer.steps * layer.samples), outputs(rows * layer.size),
        memories(outputs), gates(4 * outputs.size()) {}

  std::int64_t row(std::int64_t turn, std::int64_t sample) const {
    const std::int64_t step = layer.is_reverse ? layer.steps - 1 - turn : turn;
    return layer.samples_first ? sample * layer.steps + step : step * layer.samples + sample;
  }

  void run(const flambeau::LstmInputs& in) {
    const std::int64_t size = layer.size;
    for (std::int64_t sample = 0; sample < layer.samples; ++sample) {
      Doubles hidden(in.hidden + sample * size, in.hidden + (sample + 1) * size);
      Doubles memory(in.memory + sample * size, in.memory + (sample + 1) * size);
      for (std::int64_t turn = 0; turn < layer.steps; ++turn) {
        const std::int64_t at = row(turn, sample);
        const float* input = in.input + at * layer.features;
        double* own = gates.data() + at * 4 * size;
        for (std::int64_t gate = 0; gate < 4 * size; ++gate) {
          double sum = in.bias[gate];
          for (std::int64_t k = 0; k < layer.features; ++k) {
            sum += double(input[k]) * in.by_input[gate * layer.features + k];
          }
          for (std::int64_t k = 0; k < size; ++k) sum += hidden[k] * in.by_hidden[gate * size + k];
          own[gate] = gate / size == 2 ? std::tanh(sum) : logistic(sum);
        }
        for (std::int64_t unit = 0; unit < size; ++unit) {
          memory[unit] = own[size + unit] * memory[unit] + own[unit] * own[2 * size + unit];
          hidden[unit] = own[3 * size + unit] * std::tanh(memory[unit]);
          memories[at * size + unit] = memory[unit];
          outputs[at * size + unit] = hidden[unit];
        }
      }
    }
  }

  // The cotangents of gates, first states and inputs.
  void pull(const flambeau::LstmInputs& in, const flambeau::LstmCotangents& from, Doubles& by_gates,
            Doubles& by_hidden, Doubles& by_memory, Doubles& by_input) const {
    const std::int64_t size = layer.size;
    for (std::int64_t sample = 0; sample < layer.samples; ++sample) {
      double* hidden = by_hidden.data() + sample * size;
      double* memory = by_memory.data() + sample * size;
      std::copy_n(from.hidden + sample * size, size, hidden);
      std::copy_n(from.memory + sample * size, size, memory);
      for (std::int64_t turn = layer.steps; turn-- > 0;) {
        const std::int64_t at = row(turn, sample);
        const double* own = gates.data() + at * 4 * size;
        double* slopes = by_gates.data() + at * 4 * size;
        for (std::int64_t unit = 0; unit < size; ++unit) {
          const double i = own[unit], f = own[size + unit], g = own[2 * size + unit],
                       o = own[3 * size + unit];
          const double shown = std::tanh(memories[at * size + unit]);
          const double before = turn == 0 ? in.memory[sample * size + unit]
                                          : memories[row(turn - 1, sample) * size + unit];
          const double output = hidden[unit] + from.outputs[at * size + unit];
          const double kept = memory[unit] + output * o * (1 - shown * shown);
          slopes[unit] = kept * g * i * (1 - i);
          slopes[size + unit] = kept * before * f * (1 - f);
          slopes[2 * size + unit] = kept * i * (1 - g * g);
          slopes[3 * size + unit] = output * shown * o * (1 - o);
          memory[unit] = kept * f;
        }
        for (std::int64_t k = 0; k < size; ++k) {
          hidden[k] = 0;
          for (std::int64_t gate = 0; gate < 4 * size; ++gate) {
            hidden[k] += slopes[gate] * in.by_hidden[gate * size + k];
          }
        }
        for (std::int64_t k = 0; k < layer.features; ++k) {
          double& found = by_input[at * layer.features + k];
          for (std::int64_t gate = 0; gate < 4 * size; ++gate) {
            found += slopes[gate] * in.by_input[gate * layer.features + k];
          }
        }
      }
    }
  }

  void compare(const char* name, const Doubles& expected, const Floats& found) const {
    double scale = 1;
    for (const double each : expected) scale = std::max(scale, std::abs(each));
    for (std::size_t each = 0; each < expected.size(); ++each) {
      if (std::abs(expected[each] - found[each]) <= 1e-5 * scale) continue;
      std::printf("%s of an LSTM differ at %zu: %g instead of %g; %ld steps, %ld samples, %ld "
                  "features, %ld units\n",
                  name, each, found[each], expected[each], long(layer.steps), long(layer.samples),
                  long(layer.features), long(layer.size));
      std::exit(1);
    }
  }

  const flambeau::Lstm layer;
  std::int64_t rows;
  Doubles outputs, memories, gates;
};

}  // namespace

void check_recurrence(const flambeau::Pool& pool) {
  const flambeau::Lstm layer{between(1, 4),  between(1, 20),     between(1, 40),
                             between(1, 70), between(0, 1) == 0, between(0, 1) == 0};
  Course course(layer);
  const std::int64_t states = layer.samples * layer.size, inputs = course.rows * layer.features,
                     outputs = course.rows * layer.size;
  const Floats input = fractions(inputs), hidden = fractions(states), memory = fractions(states),
               by_input = fractions(4 * layer.size * layer.features),
               by_hidden = fractions(4 * layer.size * layer.size),
               bias = fractions(4 * layer.size);
  const flambeau::LstmInputs in{input.data(),    hidden.data(),    memory.data(),
                                by_input.data(), by_hidden.data(), bias.data()};
  course.run(in);
  // Every element has to be written.
  Floats found(outputs, NAN), last(states, NAN), gates(4 * outputs, NAN), memories(outputs, NAN);
  run_lstm(layer, in, {found.data(), last.data(), gates.data(), memories.data()}, pool);
  course.compare("outputs", course.outputs, found);
  course.compare("gates", course.gates, gates);
  course.compare("memories", course.memories, memories);
  Floats alone(outputs, NAN), last_alone(states, NAN);
  run_lstm(layer, in, {alone.data(), last_alone.data(), nullptr, nullptr}, pool);
  if (alone != found || last_alone != last) {
    std::printf("an LSTM computes something else where nothing is kept\n");
    std::exit(1);
  }
  Doubles end(states);
  for (std::int64_t each = 0; each < states; ++each) {
    const std::int64_t row = course.row(layer.steps - 1, each / layer.size);
    end[each] = course.memories[row * layer.size + each % layer.size];
  }
  course.compare("last memories", end, last);

  const Floats of_outputs = fractions(outputs), of_hidden = fractions(states),
               of_memory = fractions(states);
  const flambeau::LstmCotangents from{of_outputs.data(), of_hidden.data(), of_memory.data(),
                                      gates.data(),      memories.data(),  memory.data(),
                                      by_input.data(),   by_hidden.data()};
  Doubles by_gates(4 * outputs), by_first(states), by_memory(states), by_steps(inputs);
  course.pull(in, from, by_gates, by_first, by_memory, by_steps);
  Floats to_gates(4 * outputs, NAN), to_bias(4 * states, NAN), to_hidden(states, NAN),
      to_memory(states, NAN), to_input(inputs, NAN);
  run_lstm_gradient(layer, from,
                    {to_gates.data(), to_bias.data(), to_hidden.data(), to_memory.data(),
                     to_input.data()},
                    pool);
  course.compare("the gradients by gates", by_gates, to_gates);
  Doubles by_bias(4 * states);
  for (std::int64_t each = 0; each < 4 * states; ++each) {
    for (std::int64_t turn = 0; turn < layer.steps; ++turn) {
      const std::int64_t row = course.row(turn, each / (4 * layer.size));
      by_bias[each] += by_gates[row * 4 * layer.size + each % (4 * layer.size)];
    }
  }
  course.compare("the gradients by the bias", by_bias, to_bias);
  course.compare("the gradients by hidden states", by_first, to_hidden);
  course.compare("the gradients by memories", by_memory, to_memory);
  course.compare("the gradients by inputs", by_steps, to_input);
  Doubles by_weights(4 * layer.size * layer.features), by_recurrent(4 * layer.size * layer.size);
  for (std::int64_t each = 0; each < course.rows; ++each) {
    const std::int64_t turn = each / layer.samples, sample = each % layer.samples;
    const std::int64_t at = course.row(turn, sample);
    const float* before = turn == 0 ? &hidden[sample * layer.size]
                                    : &found[course.row(turn - 1, sample) * layer.size];
    for (std::int64_t gate = 0; gate < 4 * layer.size; ++gate) {
      const double slope = to_gates[at * 4 * layer.size + gate];
      for (std::int64_t k = 0; k < layer.features; ++k) {
        by_weights[gate * layer.features + k] += slope * input[at * layer.features + k];
      }
      for (std::int64_t k = 0; k < layer.size; ++k) {
        by_recurrent[gate * layer.size + k] += slope * before[k];
      }
    }
  }
  Floats to_weights(by_weights.size(), NAN), to_recurrent(by_recurrent.size(), NAN);
  run_lstm_weights(layer, {input.data(), hidden.data(), found.data(), to_gates.data()},
                   to_weights.data(), to_recurrent.data(), pool);
  course.compare("the gradients by the input's weights", by_weights, to_weights);
  course.compare("the gradients by the hidden state's weights", by_recurrent, to_recurrent);
  // Without those by the inputs, and written over the gates.
  Floats& without = gates;
  run_lstm_gradient(
      layer, from,
      {without.data(), to_bias.data(), to_hidden.data(), to_memory.data(), nullptr}, pool);
  if (without != to_gates) {
    std::printf("the gradients of an LSTM differ without those by its inputs\n");
    std::exit(1);
  }
}
