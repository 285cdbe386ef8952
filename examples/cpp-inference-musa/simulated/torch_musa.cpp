// Takes the place of libtorch_musa.so: when it is loaded it starts the card of
// `torchferry rehearse`, as the plugin does its own. The operator that
// SIMULATED_FAULT names, such as aten::addmm, is then wrong by up to 30 %.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace {

[[noreturn]] void give_up(const char *why) {
  std::fprintf(stderr, "the simulated card does not start: %s\n", why);
  std::exit(1);
}

const int started = [] {
  void *library = dlopen(SIMULATED_DEVICE, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    give_up(dlerror());
  }
  using Start = long (*)(const char *key, const char *name, const char *title,
                         const char *visible, int devices, int same);
  const auto start = reinterpret_cast<Start>(dlsym(library, "ferry_start"));
  if (start == nullptr ||
      start("PrivateUse1", "musa", "simulated", "", 1, 1) < 0) {
    give_up("ferry_start");
  }
  if (const char *spoiled = std::getenv("SIMULATED_FAULT")) {
    using SetFault =
        void (*)(const char *name, int kind, double scale, long after);
    const auto set_fault =
        reinterpret_cast<SetFault>(dlsym(library, "ferry_set_fault"));
    if (set_fault == nullptr) {
      give_up("ferry_set_fault");
    }
    constexpr int kNoise = 1;
    set_fault(spoiled, kNoise, 0.3, 0);
  }
  return 1;
}();

} // namespace
