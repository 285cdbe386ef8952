// The addresses that a program is given of device memory. They are those of the host's memory behind it, or, where
// somebody looks for programs that use them on the host, others at which nothing lies: a card's memory is not the
// host's.
#pragma once

#include <cstdint>

namespace ferry {

// Set before there is any device memory; 0: the same addresses. One bit that is set in all of a program's addresses on
// x86-64 and aarch64, so that what differs in it lies far from them.
inline uintptr_t card_address_bit = 0;
constexpr uintptr_t kCardAddressBit = uintptr_t{1} << 46;

// From one to the other, either way.
template <class T>
T* other_address(T* address) {
  return address == nullptr ? nullptr : reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(address) ^ card_address_bit);
}

// The host's address of what may be memory of the host that a device uses, too.
template <class T>
T* host_address(T* address) {
  return (reinterpret_cast<uintptr_t>(address) & card_address_bit) == 0 ? other_address(address) : address;
}

}  // namespace ferry
