#include "sim/report/pickle.hpp"

#include <cstring>

namespace stepcast {

void Pickle::little_endian(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out_ += static_cast<char>((value >> (8 * i)) & 0xff);
}

Pickle& Pickle::text(std::string_view text) {
  constexpr int most_memos = 256;  // BINPUT and BINGET name one in a byte
  const auto known = memo_.find(std::string(text));
  if (known != memo_.end()) {
    op("h");
    little_endian(static_cast<std::uint64_t>(known->second), 1);
    return *this;
  }
  op("X");
  little_endian(text.size(), 4);
  out_ += text;
  const int next = static_cast<int>(memo_.size());
  if (next < most_memos) {
    memo_.emplace(text, next);
    op("q");
    little_endian(static_cast<std::uint64_t>(next), 1);
  }
  return *this;
}

Pickle& Pickle::number(std::int64_t value) {
  if (value >= 0 && value < 256) {
    op("K");
    little_endian(static_cast<std::uint64_t>(value), 1);
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    op("J");
    little_endian(static_cast<std::uint64_t>(value), 4);
  } else {
    op("\x8a");
    op("\x08");
    little_endian(static_cast<std::uint64_t>(value), 8);
  }
  return *this;
}

Pickle& Pickle::real(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  op("G");
  for (int i = 7; i >= 0; --i) out_ += static_cast<char>((bits >> (8 * i)) & 0xff);
  return *this;
}

}  // namespace stepcast
