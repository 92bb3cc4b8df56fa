// Compiled several times: FLAMBEAU_RECURRENT_LOOPS names the result, and a block of sums fills the
// registers of the instruction set.

#include "recurrence.h"
#include "vector.h"

namespace flambeau {
namespace {

constexpr int kVectors = 4;  // one for each gate
constexpr int kMostRows = FLAMBEAU_LANES == 16 ? 6 : 3;

// Minus the magnitude of each number, down to where e to this power is nothing beside 1.
inline Vector depth_of(Vector x) {
  const Vector depth = x > 0.0f ? -x : x;
  return depth < -87.0f ? Vector{} - 87.0f : depth;
}

// 1 / (1 + exp(-x)), by powers that cannot overflow.
inline Vector logistic(Vector x) {
  const Vector power = exponential(x > 0.0f ? -x : x);
  const Vector found = 1.0f / (1.0f + power);
  return x < 0.0f ? power * found : found;
}

// (1 - y) / (1 + y) with y = exp(-2 |x|). Near 0, 1 - y is known to all digits as it is.
inline Vector hyperbolic_tangent(Vector x) {
  const Power power = power_of(depth_of(x + x));
  const Vector less = (1.0f - power.scale) - power.excess * power.scale;
  const Vector found = less / (2.0f - less);
  return x < 0.0f ? -found : found;
}

// sums[i][j] += sum over t of left[i * left_row + t * left_term] * right[t][j]
template <int kRows, int kCount>
inline void accumulate(std::int64_t terms, const float* left, std::int64_t left_row,
                       std::int64_t left_term, const float* right, Vector (&sums)[kRows][kCount]) {
  for (std::int64_t term = 0; term < terms; ++term, left += left_term, right += kCount * kLanes) {
    Vector values[kCount];
    for (int each = 0; each < kCount; ++each) values[each] = load(right + each * kLanes);
    for (int row = 0; row < kRows; ++row) {
      const float factor = left[row * left_row];
      for (int each = 0; each < kCount; ++each) sums[row][each] += factor * values[each];
    }
  }
}

// Calls visit.template rows<count>(first) for blocks of rows that are as equal as can be.
template <int kRows, typename Visit>
inline void call_with(std::int64_t count, std::int64_t first, const Visit& visit) {
  if (count == kRows) {
    visit.template rows<kRows>(first);
  } else if constexpr (kRows > 1) {
    call_with<kRows - 1>(count, first, visit);
  }
}

template <typename Visit>
inline void blocks(std::int64_t rows, const Visit& visit) {
  const std::int64_t count = (rows + kMostRows - 1) / kMostRows;
  for (std::int64_t block = 0; block < count; ++block) {
    const std::int64_t first = rows * block / count, last = rows * (block + 1) / count;
    call_with<kMostRows>(last - first, first, visit);
  }
}

// A vector of units of one row, from their pre-activations.
inline void activate(const LstmStep& s, std::int64_t row, std::int64_t unit, int count,
                     const float* sums) {
  const Vector i = logistic(load(sums)), f = logistic(load(sums + kLanes));
  const Vector g = hyperbolic_tangent(load(sums + 2 * kLanes));
  const Vector o = logistic(load(sums + 3 * kLanes));
  const Vector memory = f * read(s.memory + row * s.memory_pitch + unit, count) + i * g;
  write(s.new_memory + row * s.new_memory_pitch + unit, memory, count);
  write(s.output + row * s.output_pitch + unit, o * hyperbolic_tangent(memory), count);
  if (s.gates == nullptr) return;
  float* gates = s.gates + row * s.gates_pitch + unit;
  write(gates, i, count);
  write(gates + s.size, f, count);
  write(gates + 2 * s.size, g, count);
  write(gates + 3 * s.size, o, count);
}

// A vector of units.
struct Units {
  const LstmStep& step;
  std::int64_t unit;
  int count;
  const float* panel;

  template <int kRows>
  void rows(std::int64_t first) const {
    const LstmStep& s = step;
    float found[kRows * kVectors * kLanes] __attribute__((aligned(64)));
    for (int row = 0; row < kRows; ++row) expect(first + row);
    sum<kRows>(first, found);
    for (int row = 0; row < kRows; ++row) {
      activate(s, first + row, unit, count, found + row * kVectors * kLanes);
    }
  }

  // The lines that results go to come from memory while sums are computed.
  void expect(std::int64_t row) const {
    const LstmStep& s = step;
    __builtin_prefetch(s.output + row * s.output_pitch + unit, 1);
    __builtin_prefetch(s.new_memory + row * s.new_memory_pitch + unit, 1);
    if (s.gates == nullptr) return;
    for (int gate = 0; gate < kVectors; ++gate) {
      __builtin_prefetch(s.gates + row * s.gates_pitch + gate * s.size + unit, 1);
    }
  }

  template <int kRows>
  __attribute__((noinline)) void sum(std::int64_t first, float* found) const {
    const LstmStep& s = step;
    const float* right = panel;
    Vector sums[kRows][kVectors];
    for (int gate = 0; gate < kVectors; ++gate) {
      for (int row = 0; row < kRows; ++row) sums[row][gate] = load(right + gate * kLanes);
    }
    right += kVectors * kLanes;
    accumulate(s.features, s.input + first * s.input_pitch, s.input_pitch, 1, right, sums);
    right += s.features * kVectors * kLanes;
    accumulate(s.size, s.hidden + first * s.hidden_pitch, s.hidden_pitch, 1, right, sums);
    for (int row = 0; row < kRows; ++row) {
      for (int gate = 0; gate < kVectors; ++gate) {
        store(found + (row * kVectors + gate) * kLanes, sums[row][gate]);
      }
    }
  }
};

void lstm_step(const LstmStep& step) {
  const float* panel = step.panels;
  for (std::int64_t unit = 0; unit < step.size; unit += kLanes) {
    const std::int64_t left = step.size - unit;
    blocks(step.rows, Units{step, unit, left < kLanes ? static_cast<int>(left) : kLanes, panel});
    panel += (1 + step.features + step.size) * kVectors * kLanes;
  }
}

void lstm_step_gradient(const LstmStepGradient& s) {
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const std::int64_t state = row * s.size, place = row * s.pitch * s.size;
    for (std::int64_t unit = 0; unit < s.size; unit += kLanes) {
      const std::int64_t left = s.size - unit;
      const int count = left < kLanes ? static_cast<int>(left) : kLanes;
      const float* gates = s.gates + 4 * place + unit;
      const Vector i = read(gates, count), f = read(gates + s.size, count);
      const Vector g = read(gates + 2 * s.size, count), o = read(gates + 3 * s.size, count);
      const Vector shown = hyperbolic_tangent(read(s.memories + place + unit, count));
      const Vector before = read(s.before + row * s.before_pitch + unit, count);
      const Vector output =
          read(s.hidden + state + unit, count) + read(s.outputs + place + unit, count);
      const Vector memory =
          read(s.memory + state + unit, count) + output * (o * (1.0f - shown * shown));
      const Vector found[] = {memory * (g * (i * (1.0f - i))), memory * (before * (f * (1.0f - f))),
                              memory * (i * (1.0f - g * g)), output * (shown * (o * (1.0f - o)))};
      write(s.memory + state + unit, memory * f, count);
      for (int gate = 0; gate < kVectors; ++gate) {
        const std::int64_t own = gate * s.size + unit;
        float* sums = s.by_bias + 4 * state + own;
        write(sums, read(sums, count) + found[gate], count);
        write(s.by_gates + 4 * place + own, found[gate], count);
        write(s.copy + 4 * state + own, found[gate], count);
      }
    }
  }
}

// A panel of `kCount` vectors of columns, of which the last has `last` lanes.
template <int kCount>
struct Panel {
  const PanelProduct& product;
  const float* panel;
  float* out;
  int last;

  template <int kRows>
  __attribute__((noinline)) void rows(std::int64_t first) const {
    const PanelProduct& p = product;
    Vector sums[kRows][kCount] = {};
    accumulate(p.terms, p.left + first * p.left_row, p.left_row, p.left_term, panel, sums);
    for (int row = 0; row < kRows; ++row) {
      float* to = out + (first + row) * p.out_pitch;
      for (int each = 0; each < kCount; ++each, to += kLanes) {
        const int count = each < kCount - 1 ? kLanes : last;
        write(to, p.adds ? read(to, count) + sums[row][each] : sums[row][each], count);
      }
    }
  }
};

void multiply(const PanelProduct& product) {
  const float* panel = product.panels;
  for (std::int64_t column = 0; column < product.columns; column += kVectors * kLanes) {
    const std::int64_t left = product.columns - column, vectors = (left + kLanes - 1) / kLanes;
    const int count = vectors < kVectors ? static_cast<int>(vectors) : kVectors;
    const std::int64_t rest = left - (count - 1) * kLanes;
    const int last = rest < kLanes ? static_cast<int>(rest) : kLanes;
    float* out = product.out + column;
    switch (count) {
      case 1: blocks(product.rows, Panel<1>{product, panel, out, last}); break;
      case 2: blocks(product.rows, Panel<2>{product, panel, out, last}); break;
      case 3: blocks(product.rows, Panel<3>{product, panel, out, last}); break;
      default: blocks(product.rows, Panel<kVectors>{product, panel, out, last});
    }
    panel += product.terms * count * kLanes;
  }
}

void gather(std::int64_t terms, int count, const float* from, std::int64_t pitch, float* to) {
  if (count == kMostRows) {
    for (; terms > 0; --terms, from += pitch, to += kMostRows) {
      for (int each = 0; each < kMostRows; ++each) to[each] = from[each];
    }
  } else {
    for (; terms > 0; --terms, from += pitch, to += kMostRows) {
      for (int each = 0; each < count; ++each) to[each] = from[each];
    }
  }
}

}  // namespace

extern const RecurrentLoops FLAMBEAU_RECURRENT_LOOPS;
const RecurrentLoops FLAMBEAU_RECURRENT_LOOPS = {
    kLanes, kVectors, kMostRows, lstm_step, lstm_step_gradient, multiply, gather};

}  // namespace flambeau
