// What glibc's malloc keeps of freed memory.
#pragma once

#include <cstdlib>
#include <cstring>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace ferry {

// Whether the user told glibc's malloc what to keep.
inline bool malloc_is_tuned() {
  for (const char* variable : {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_"}) {
    if (std::getenv(variable) != nullptr) {
      return true;
    }
  }
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  return tunables != nullptr && std::strstr(tunables, "glibc.malloc.") != nullptr;
}

// A plugin's allocator keeps what is freed for the next step. malloc gives large blocks back to the kernel, or not, as
// it happens to lie in the heap; each page then costs a fault in the next step, which can take as long as its work.
inline void keep_freed_memory() {
#if defined(__GLIBC__)
  // Backward runs on a device thread, whose second malloc arena would map every large gradient anew.
  mallopt(M_ARENA_MAX, 1);
  if (!malloc_is_tuned()) {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that it takes: larger blocks are mapped one by one
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
  }
#endif
}

}  // namespace ferry
