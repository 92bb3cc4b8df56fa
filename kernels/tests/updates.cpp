// Steps of optimizers and clipping beside their formulas in double precision.

#include "updates.h"

#include "check.h"

namespace {

using Floats = std::vector<float>;

void compare(const char* name, double expected, float found) {
  if (std::abs(expected - found) <= 1e-5 * std::max(1.0, std::abs(expected))) return;
  std::printf("%s differs: %g instead of %g\n", name, found, expected);
  std::exit(1);
}

float one_of(float one, float other) { return between(0, 1) == 0 ? one : other; }

// Whether results are written over the old values.
struct Place {
  bool same = between(0, 1) == 0;
  Floats other;

  float* of(Floats& old) {
    if (same) return old.data();
    other.resize(old.size());
    return other.data();
  }
};

}  // namespace

void check_updates(const flambeau::Pool& pool) {
  flambeau::Sizes sizes;
  std::vector<Floats> params, grads, averages, squares;
  for (std::int64_t left = between(0, 6); left > 0; --left) {
    sizes.push_back(between(0, 3) == 0 ? between(16000, 40000) : between(0, 70));
    params.push_back(numbers(sizes.back()));
    grads.push_back(numbers(sizes.back()));
    averages.push_back(numbers(sizes.back()));
    squares.push_back(numbers(sizes.back()));
    for (float& each : squares.back()) each = std::abs(each);
  }
  const std::size_t count = sizes.size();
  const std::vector<Floats> p = params, m = averages, v = squares;

  double sum = 0;
  std::vector<const float*> from;
  std::vector<Floats> scaled(count);
  std::vector<float*> to;
  for (std::size_t array = 0; array < count; ++array) {
    for (const float each : grads[array]) sum += double(each) * each;
    from.push_back(grads[array].data());
    scaled[array].resize(grads[array].size());
    to.push_back(scaled[array].data());
  }
  compare("norm", std::sqrt(sum), flambeau::norm(sizes, from, pool));
  flambeau::scale(sizes, 0.5f, from, to, pool);
  for (std::size_t array = 0; array < count; ++array) {
    for (std::size_t i = 0; i < scaled[array].size(); ++i) {
      compare("scale", 0.5 * grads[array][i], scaled[array][i]);
    }
  }

  std::vector<Place> of_param(count), of_average(count), of_square(count);
  std::vector<flambeau::AdamNumbers> adams;
  std::vector<flambeau::AdamArrays> arrays;
  const bool decoupled = between(0, 1) == 0, maximize = between(0, 1) == 0;
  const float decay = one_of(0, 0.25f);
  for (std::size_t array = 0; array < count; ++array) {
    adams.push_back({0.5f, 0.125f, decay, 0.75f, 0.25f, 0.875f, 0.125f, one_of(2, 4), one_of(1, 8),
                     decoupled, maximize});
    arrays.push_back({params[array].data(), grads[array].data(), averages[array].data(),
                      squares[array].data(), of_param[array].of(params[array]),
                      of_average[array].of(averages[array]), of_square[array].of(squares[array])});
  }
  flambeau::adam(sizes, adams, arrays, pool);
  for (std::size_t array = 0; array < count; ++array) {
    const flambeau::AdamNumbers& n = adams[array];
    for (std::int64_t i = 0; i < sizes[array]; ++i) {
      double grad = maximize ? -grads[array][i] : grads[array][i];
      if (!decoupled) grad += decay * p[array][i];
      const double average = n.rest1 * grad + n.beta1 * m[array][i];
      const double square = n.rest2 * grad * grad + n.beta2 * v[array][i];
      double update = average * n.scale1 / (std::sqrt(square * n.scale2) + n.epsilon);
      if (decoupled) update += decay * p[array][i];
      compare("average", average, arrays[array].new_average[i]);
      compare("square", square, arrays[array].new_square[i]);
      compare("adam", p[array][i] - n.rate * update, arrays[array].new_param[i]);
    }
  }

  const bool has_buffers = between(0, 1) == 0;
  const flambeau::SgdNumbers n{0.5f, 0.75f, decay, between(0, 1) == 0, maximize};
  params = p;
  averages = m;
  std::vector<flambeau::SgdArrays> plain;
  for (std::size_t array = 0; array < count; ++array) {
    plain.push_back({params[array].data(), grads[array].data(), nullptr,
                     of_param[array].of(params[array]), nullptr});
    if (!has_buffers) continue;
    plain.back().buffer = averages[array].data();
    plain.back().new_buffer = of_average[array].of(averages[array]);
  }
  flambeau::sgd(sizes, n, plain, pool);
  for (std::size_t array = 0; array < count; ++array) {
    for (std::int64_t i = 0; i < sizes[array]; ++i) {
      double grad = (maximize ? -grads[array][i] : grads[array][i]) + decay * p[array][i];
      if (has_buffers) {
        const double buffer = grad + n.momentum * m[array][i];
        compare("buffer", buffer, plain[array].new_buffer[i]);
        grad = n.nesterov ? grad + n.momentum * buffer : buffer;
      }
      compare("sgd", p[array][i] - n.rate * grad, plain[array].new_param[i]);
    }
  }
}
