#pragma once
// Work in a process of its own that hands back bytes. SimGrid's platform cannot be changed once it
// ran, and there is one a process; so what needs a platform made to measure runs in a child, which
// ends without any clean-up of SimGrid's or ours.
//
// What the work throws is thrown here as std::runtime_error with the same words.
// Internal to sim/engines. Tested by tests/unit/engines/messages_test.cpp.

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

namespace stepcast {

std::string output_of_child(const std::function<std::string()>& work);

// Vectors of plain values as bytes, one behind the other.
template <typename T>
void put(std::string& bytes, const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::size_t count = values.size();
  bytes.append(reinterpret_cast<const char*>(&count), sizeof count);
  bytes.append(reinterpret_cast<const char*>(values.data()), count * sizeof(T));
}

template <typename T>
std::vector<T> take(const std::string& bytes, std::size_t& from) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::size_t count = 0;
  std::memcpy(&count, bytes.data() + from, sizeof count);
  from += sizeof count;
  std::vector<T> values(count);
  if (count > 0)
    std::memcpy(static_cast<void*>(values.data()), bytes.data() + from, count * sizeof(T));
  from += count * sizeof(T);
  return values;
}

}  // namespace stepcast
