// What the plugin refuses, or torch on its device's behalf: noted where it is thrown, told when Python gets to know it,
// whoever catches it there. What is thrown and caught in C++ is no refusal.
//
// `__cxa_throw` and the functions by which libraries hand exceptions to Python are called through tables that the
// loader fills (the GOT). In the libraries of torch, of the plugin and in this one the entries lead here first.
#pragma once

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "settings.h"

namespace ferry::refusal_watch {

enum class Owner { kPlugin, kTorch, kRuntime, kOther };

struct Library {
  uintptr_t begin, end;
  Owner owner;
};

struct Thrown {
  Owner owner = Owner::kOther;
  bool told = false;
  std::string text;
};

// What is thrown and has not come to Python, by its address: what was caught in C++ stays until another takes its
// place.
using Pending = std::unordered_map<const void*, Thrown>;
constexpr size_t kMostPending = 4096;

struct State {
  std::vector<Library> libraries;
  std::vector<std::string> folders;  // of the plugin
  std::string torch_folder, device;
  std::mutex mutex;
  Pending pending;
  int entries = 0;  // of the loader's tables that lead here
};

inline State& state() {
  static auto* instance = new State;  // it is used until the process is gone
  return *instance;
}

using Throw = void (*)(void*, std::type_info*, void (*)(void*));
using SetString = void (*)(void*, const char*);
using SetObject = void (*)(void*, void*);
using Occurred = void* (*)();

inline Throw real_throw = nullptr;
inline SetString real_set_string = nullptr;
inline SetObject real_set_object = nullptr;
inline Occurred error_occurred = nullptr;

// The number of frames is small: only the innermost library that throws on its own account is looked for.
constexpr int kFrames = 24;

inline Owner owner_of(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const auto& library : state().libraries) {
    if (library.begin <= at && at < library.end) {
      return library.owner;
    }
  }
  return Owner::kOther;
}

inline std::string text_of(void* object, const std::type_info* type) {
  void* adjusted = object;
  if (!typeid(std::exception).__do_catch(type, &adjusted, 1)) {
    return "";
  }
  auto* error = static_cast<std::exception*>(adjusted);
  auto* ours = dynamic_cast<c10::Error*>(error);
  return ours != nullptr ? ours->what_without_backtrace() : error->what();
}

inline const void* object_of(const std::exception_ptr& error) {
  const void* object = nullptr;
  std::memcpy(&object, &error, sizeof object);  // an exception_ptr is a pointer to what was thrown
  return object;
}

// Take down who throws what. The frames of this function and of its caller are the first two.
__attribute__((noinline)) inline void note(void* object, const std::type_info* type) noexcept {
  try {
    std::array<void*, kFrames> frames{};
    const int count = backtrace(frames.data(), kFrames);
    auto owner = Owner::kOther;
    for (int i = 2; i < count; i++) {
      owner = owner_of(frames[static_cast<size_t>(i)]);
      if (owner != Owner::kRuntime) {
        break;
      }
    }
    auto& s = state();
    bool told = std::exchange(refusal_was_told, false);
    const bool matters = owner == Owner::kPlugin || owner == Owner::kTorch;
    std::string text = matters ? text_of(object, type) : "";
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (const auto current = std::current_exception(); current != nullptr) {
      const auto before = s.pending.find(object_of(current));  // it is thrown on in other words
      told = told || (before != s.pending.end() && before->second.told);
    }
    s.pending.erase(object);  // another one that is gone, and its memory is this one's
    if (matters) {
      if (s.pending.size() >= kMostPending) {
        s.pending.clear();
      }
      s.pending[object] = {owner, told, std::move(text)};
    }
  } catch (...) {  // out of memory: the program's own exception goes on
  }
}

[[noreturn]] __attribute__((noinline)) inline void throwing(void* object, std::type_info* type,
                                                            void (*destroy)(void*)) {
  note(object, type);
  real_throw(object, type, destroy);
  std::terminate();
}

// Whether the plugin only carries what is a fault of the program's own on any device: checks of torch's headers, which
// are compiled into it, and memory of the host.
inline bool is_of_program(const std::string& text) {
  for (const auto* words : {"is invalid for input of size", "Dimension out of range", "alloc_cpu.cpp"}) {
    if (text.find(words) != std::string::npos) {
      return true;
    }
  }
  return false;
}

// Whether a text of torch's speaks of the device: `npu` or `npu:0` as a word, the key that stands for all such devices,
// or a process group that takes tensors of the card alone. Paths, names and code that a text quotes are none of that.
inline bool speaks_of_device(const std::string& text) {
  if (text.find("<--- HERE") != std::string::npos || text.find("alloc_cpu.cpp") != std::string::npos) {
    return false;
  }
  for (const auto* words : {"PrivateUse1", "No backend type associated with device type"}) {
    if (text.find(words) != std::string::npos) {
      return true;
    }
  }
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto& device = state().device;
  const auto is_name = [&](size_t at) { return std::isalnum(static_cast<unsigned char>(lower[at])) != 0; };
  const std::string_view joins = "_/\\-.";
  for (size_t at = lower.find(device); at != std::string::npos; at = lower.find(device, at + 1)) {
    const size_t end = at + device.size();
    const bool begins = at == 0 || (!is_name(at - 1) && joins.find(lower[at - 1]) == std::string_view::npos);
    const bool ends = end == lower.size() || (!is_name(end) && joins.find(lower[end]) == std::string_view::npos) ||
                      (lower[end] == '.' && (end + 1 == lower.size() || !is_name(end + 1)));
    if (begins && ends) {
      return true;
    }
  }
  return false;
}

// An event has said already what was thrown.
inline void is_told(const std::exception_ptr& error) {
  auto& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  const auto found = s.pending.find(object_of(error));
  if (found != s.pending.end()) {
    found->second.told = true;
  }
}

// Tell Python of the exception that is being handed to it. The interpreter lock is held.
inline void tell(void* python_type) noexcept {
  try {
    const auto current = std::current_exception();
    if (current == nullptr || (error_occurred != nullptr && error_occurred() != nullptr)) {
      return;
    }
    Thrown found;
    {
      auto& s = state();
      const std::lock_guard<std::mutex> lock(s.mutex);
      const auto at = s.pending.find(object_of(current));
      if (at == s.pending.end() || at->second.told) {
        return;
      }
      found = at->second;
      if (found.owner == Owner::kPlugin ? is_of_program(found.text) : !speaks_of_device(found.text)) {
        return;
      }
      at->second.told = true;  // it may be handed on, in other words
    }
    emit(Event::kRefused, found.text, found.owner == Owner::kPlugin ? "plugin" : "torch",
         static_cast<int64_t>(reinterpret_cast<intptr_t>(python_type)));
  } catch (...) {
  }
}

inline void setting_string(void* type, const char* text) {
  tell(type);
  real_set_string(type, text);
}

inline void setting_object(void* type, void* value) {
  tell(type);
  real_set_object(type, value);
}

inline bool starts_with(std::string_view text, std::string_view begin) {
  return !begin.empty() && text.substr(0, begin.size()) == begin;
}

inline Owner owner_of_library(const std::string& path, bool is_own) {
  if (is_own) {
    return Owner::kPlugin;  // what it refuses, it refuses in the plugin's place
  }
  for (const auto& folder : state().folders) {
    if (starts_with(path, folder)) {
      return Owner::kPlugin;
    }
  }
  const auto name = path.substr(path.rfind('/') + 1);
  if (starts_with(name, "libc10") || starts_with(name, "libstdc++") || starts_with(name, "libgcc_s") ||
      starts_with(name, "libc.so")) {
    return Owner::kRuntime;
  }
  return starts_with(path, state().torch_folder) ? Owner::kTorch : Owner::kOther;
}

constexpr bool is_slot(uint64_t type) {
#if defined(__x86_64__)
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
  return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
#else
  (void)type;
  return false;
#endif
}

inline int lead(void** slot, void* here, bool is_read_only) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* begin = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(slot) & ~(page - 1));
  if (is_read_only && mprotect(begin, page, PROT_READ | PROT_WRITE) != 0) {
    return 0;
  }
  *slot = here;
  if (is_read_only) {
    mprotect(begin, page, PROT_READ);
  }
  return 1;
}

struct Dynamic {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  std::array<std::pair<const ElfW(Rela)*, size_t>, 2> tables{};
};

inline Dynamic dynamic_of(const ElfW(Dyn) * entry) {
  Dynamic found;
  for (; entry->d_tag != DT_NULL; entry++) {
    const auto address = entry->d_un.d_ptr;
    switch (entry->d_tag) {
      case DT_SYMTAB:
        found.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
        break;
      case DT_STRTAB:
        found.names = reinterpret_cast<const char*>(address);
        break;
      case DT_JMPREL:
        found.tables[0].first = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_PLTRELSZ:
        found.tables[0].second = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_RELA:
        found.tables[1].first = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_RELASZ:
        found.tables[1].second = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      default:
        break;
    }
  }
  return found;
}

// Let the entries of a library lead here.
inline void lead_here(const dl_phdr_info& info, const ElfW(Dyn) * entries, uintptr_t relro_begin, uintptr_t relro_end) {
  const auto dynamic = dynamic_of(entries);
  if (dynamic.symbols == nullptr || dynamic.names == nullptr) {
    return;
  }
  for (const auto& [table, count] : dynamic.tables) {
    for (size_t i = 0; table != nullptr && i < count; i++) {
      const auto symbol = ELF64_R_SYM(table[i].r_info);
      if (symbol == 0 || !is_slot(ELF64_R_TYPE(table[i].r_info))) {
        continue;
      }
      const std::string_view name = dynamic.names + dynamic.symbols[symbol].st_name;
      void* here = name == "__cxa_throw"       ? reinterpret_cast<void*>(&throwing)
                   : name == "PyErr_SetString" ? reinterpret_cast<void*>(&setting_string)
                   : name == "PyErr_SetObject" ? reinterpret_cast<void*>(&setting_object)
                                               : nullptr;
      if (here != nullptr) {
        const auto slot = info.dlpi_addr + table[i].r_offset;
        state().entries += lead(reinterpret_cast<void**>(slot), here, relro_begin <= slot && slot < relro_end);
      }
    }
  }
}

inline int visit(dl_phdr_info* info, size_t, void* own_base) {
  const std::string path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  const bool is_own = reinterpret_cast<void*>(info->dlpi_addr) == own_base;
  const auto owner = owner_of_library(path, is_own);
  if (owner == Owner::kOther) {
    return 0;
  }
  const ElfW(Dyn)* entries = nullptr;
  uintptr_t relro_begin = 0, relro_end = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto& segment = info->dlpi_phdr[i];
    const auto begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
      state().libraries.push_back({begin, begin + segment.p_memsz, owner});
    } else if (segment.p_type == PT_DYNAMIC) {
      entries = reinterpret_cast<const ElfW(Dyn)*>(begin);
    } else if (segment.p_type == PT_GNU_RELRO) {
      relro_begin = begin;
      relro_end = begin + segment.p_memsz;
    }
  }
  const bool is_system = owner == Owner::kRuntime && path.find("libc10") == std::string::npos;
  if (entries != nullptr && !is_system) {
    lead_here(*info, entries, relro_begin, relro_end);
  }
  return 0;
}

// Begin, and return how many entries lead here: 0 where nothing can be watched. `folders` has the plugin's folders, one
// a line; `torch_folder` is where torch has its libraries.
inline int watch(const char* folders, const char* torch_folder, const char* device) {
  auto& s = state();
  if (real_throw != nullptr) {
    return s.entries;
  }
  std::istringstream lines(folders);
  for (std::string line; std::getline(lines, line);) {
    s.folders.push_back(line);
  }
  s.torch_folder = torch_folder;
  s.device = device;
  real_set_string = reinterpret_cast<SetString>(dlsym(RTLD_DEFAULT, "PyErr_SetString"));
  real_set_object = reinterpret_cast<SetObject>(dlsym(RTLD_DEFAULT, "PyErr_SetObject"));
  error_occurred = reinterpret_cast<Occurred>(dlsym(RTLD_DEFAULT, "PyErr_Occurred"));
  auto* throws = reinterpret_cast<Throw>(dlsym(RTLD_DEFAULT, "__cxa_throw"));
  Dl_info own{};
  if (real_set_string == nullptr || real_set_object == nullptr || throws == nullptr ||
      dladdr(reinterpret_cast<void*>(&state), &own) == 0) {
    return 0;
  }
  std::array<void*, 2> first{};
  backtrace(first.data(), 2);  // it loads a library when it is called first: not in the middle of a throw
  real_throw = throws;
  dl_iterate_phdr(visit, own.dli_fbase);
  return s.entries;
}

}  // namespace ferry::refusal_watch
