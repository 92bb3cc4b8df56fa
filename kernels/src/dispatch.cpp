// Which of the compiled loops this processor runs.

#include <cstdlib>
#include <cstring>

#include "channels.h"
#include "matrix.h"
#include "maxima.h"
#include "micro.h"
#include "recurrence.h"
#include "rows.h"
#include "updates.h"

namespace flambeau {

extern const ChannelLoops channels_plain;
extern const Micro micro_plain;
extern const MatrixLoops matrix_plain;
extern const MaximumLoops maxima_plain;
extern const RecurrentLoops recurrent_plain;
extern const RowLoops rows_plain;
extern const UpdateLoops updates_plain;
#if defined(__x86_64__)
extern const ChannelLoops channels_avx2, channels_avx512;
extern const Micro micro_avx2, micro_avx512;
extern const MatrixLoops matrix_avx2, matrix_avx512;
extern const MaximumLoops maxima_avx2, maxima_avx512;
extern const RecurrentLoops recurrent_avx2, recurrent_avx512;
extern const RowLoops rows_avx2, rows_avx512;
extern const UpdateLoops updates_avx2, updates_avx512;
#endif

namespace {

// The loops of one set of instructions.
struct Set {
  const Micro& micro;
  const MatrixLoops& matrix;
  const MaximumLoops& maxima;
  const RecurrentLoops& recurrent;
  const RowLoops& rows;
  const UpdateLoops& updates;
  const ChannelLoops& channels;
};

Set chosen() {
#if defined(__x86_64__)
  // The fastest set that is allowed; tests try each.
  const char* most = std::getenv("FLAMBEAU_KERNELS_ISA");
  const auto allowed = [most](const Micro& each) {
    return most == nullptr || std::strcmp(most, each.name) == 0;
  };
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4") && allowed(micro_avx512)) {
    return {micro_avx512,     matrix_avx512, maxima_avx512,
            recurrent_avx512, rows_avx512,   updates_avx512, channels_avx512};
  }
  if (__builtin_cpu_supports("x86-64-v3") && allowed(micro_avx2)) {
    return {micro_avx2,     matrix_avx2, maxima_avx2,
            recurrent_avx2, rows_avx2,   updates_avx2, channels_avx2};
  }
#endif
  return {micro_plain,     matrix_plain, maxima_plain,
          recurrent_plain, rows_plain,   updates_plain, channels_plain};
}

const Set& set() {
  static const Set found = chosen();
  return found;
}

}  // namespace

const Micro& micro() { return set().micro; }
const MatrixLoops& matrix_loops() { return set().matrix; }
const MaximumLoops& maximum_loops() { return set().maxima; }
const RecurrentLoops& recurrent_loops() { return set().recurrent; }
const RowLoops& row_loops() { return set().rows; }
const UpdateLoops& update_loops() { return set().updates; }
const ChannelLoops& channel_loops() { return set().channels; }

}  // namespace flambeau
