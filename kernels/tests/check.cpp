// Compares the kernels with loops that say what they compute, on random shapes.
//
//   check [seconds] [seed]
//
// Run it built with address and undefined-behaviour sanitizers.

#include "check.h"

#include <chrono>

#include "micro.h"

int main(int count, char** arguments) {
  using flambeau::Pool;
  const double seconds = count > 1 ? std::atof(arguments[1]) : 10;
  random_bits.seed(count > 2 ? std::atoi(arguments[2]) : 0);
  const Pool alone{1}, shared{3};

  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  long shapes = 0;
  for (; std::chrono::duration<double>(Clock::now() - begin).count() < seconds; ++shapes) {
    for (const auto check : {check_attention, check_channels, check_convolution, check_maxima,
                             check_recurrence, check_rows, check_updates}) {
      check(shapes % 2 == 0 ? alone : shared);
    }
  }
  std::printf("%s: %ld shapes of each agree\n", flambeau::micro().name, shapes);
}
