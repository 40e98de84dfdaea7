#include "runtime/train/moves.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/numbers.hpp"

namespace stepcast::runtime {
namespace {

template <typename Stored>
bool is_poison(const std::byte* memory, std::int64_t at) {
  std::array<unsigned char, sizeof(Stored)> bytes{};
  std::memcpy(bytes.data(), memory + at * static_cast<std::int64_t>(sizeof(Stored)),
              sizeof(Stored));
  return std::all_of(bytes.begin(), bytes.end(), [](unsigned char b) { return b == poison_byte; });
}

}  // namespace

template <typename Real>
void read(Real* to, const std::byte* memory, Dtype dtype, std::int64_t at, std::int64_t count,
          const std::string& name) {
  visit(dtype, [&](auto stored) {
    using Stored = decltype(stored);
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = static_cast<Real>(load<Stored>(memory, at + i));
      const bool suspicious = !(to[i] == to[i]) || to[i] == Real(-1);
      if (suspicious && is_poison<Stored>(memory, at + i)) {
        throw PoisonRead(name + " reads memory that was freed or never written");
      }
    }
  });
}

template <typename Real>
void write(std::byte* memory, Dtype dtype, std::int64_t at, const Real* from, std::int64_t count) {
  visit(dtype, [&](auto stored) {
    using Stored = decltype(stored);
    for (std::int64_t i = 0; i < count; ++i) {
      store<Stored>(memory, at + i, static_cast<typename Number<Stored>::Real>(from[i]));
    }
  });
}

template void read(float*, const std::byte*, Dtype, std::int64_t, std::int64_t, const std::string&);
template void read(double*, const std::byte*, Dtype, std::int64_t, std::int64_t,
                   const std::string&);
template void write(std::byte*, Dtype, std::int64_t, const float*, std::int64_t);
template void write(std::byte*, Dtype, std::int64_t, const double*, std::int64_t);

void run_moves(const std::vector<Move>& moves, std::byte* const* memory, const std::string& name,
               double factor) {
  constexpr std::int64_t piece = 256;
  std::array<double, piece> from{};
  std::array<double, piece> sum{};
  for (const Move& move : moves) {
    for (std::int64_t done = 0; done < move.count; done += piece) {
      const std::int64_t count = std::min(piece, move.count - done);
      std::byte* to = memory[move.to.view];
      read(from.data(), memory[move.from.view], move.from.dtype, move.from.at + done, count, name);
      if (const double by = move.factor * factor; by != 1) {
        for (std::int64_t i = 0; i < count; ++i) from[static_cast<std::size_t>(i)] *= by;
      }
      if (move.add) {
        read(sum.data(), to, move.to.dtype, move.to.at + done, count, name);
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) from[i] += sum[i];
      }
      write(to, move.to.dtype, move.to.at + done, from.data(), count);
    }
  }
}

}  // namespace stepcast::runtime
