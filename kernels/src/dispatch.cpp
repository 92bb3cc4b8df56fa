// Which of the compiled loops this processor runs.

#include <cstdlib>
#include <cstring>

#include "micro.h"

namespace flambeau {

extern const Micro micro_plain;
#if defined(__x86_64__)
extern const Micro micro_avx2;
extern const Micro micro_avx512;
#endif

namespace {

const Micro& chosen() {
#if defined(__x86_64__)
  // The fastest set that is allowed; tests try each.
  const char* most = std::getenv("FLAMBEAU_KERNELS_ISA");
  const auto allowed = [most](const Micro& each) {
    return most == nullptr || std::strcmp(most, each.name) == 0;
  };
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4") && allowed(micro_avx512)) return micro_avx512;
  if (__builtin_cpu_supports("x86-64-v3") && allowed(micro_avx2)) return micro_avx2;
#endif
  return micro_plain;
}

}  // namespace

const Micro& micro() {
  static const Micro& found = chosen();
  return found;
}

}  // namespace flambeau
