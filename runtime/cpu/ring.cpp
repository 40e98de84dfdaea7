#include "runtime/cpu/ring.hpp"

#include <algorithm>
#include <type_traits>

#include "runtime/numbers.hpp"

namespace stepcast::runtime {
namespace {

struct Chunk {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

Chunk chunk_of(std::int64_t elements, int ranks, int index) {
  const std::int64_t begin = elements * index / ranks;
  return {begin, elements * (index + 1) / ranks - begin};
}

template <typename Stored>
void reduce_chunk(const Collective& c, const std::vector<Operands>& all, Chunk from, int last,
                  std::byte* to, std::int64_t to_at) {
  using Real = typename Number<Stored>::Real;
  const int ranks = static_cast<int>(all.size());
  constexpr bool floating = std::is_floating_point_v<Real>;
  const bool average = c.reduction == Reduction::avg;
  Real scale = 1;
  if constexpr (floating) scale = average ? Real(1) / static_cast<Real>(ranks) : Real(1);
  for (std::int64_t e = 0; e < from.count; ++e) {
    const auto input = [&](int hop) {
      const auto rank = static_cast<std::size_t>((last + 1 + hop) % ranks);
      const Real x = load<Stored>(all[rank].send, from.begin + e);
      return average && floating ? static_cast<Real>(x * scale) : x;
    };
    Real sum = input(0);
    for (int hop = 1; hop < ranks; ++hop) {
      const Real x = input(hop);
      sum = c.reduction == Reduction::max ? std::max(sum, x) : static_cast<Real>(sum + x);
      sum = Number<Stored>::load(Number<Stored>::store(sum));
    }
    if (average && !floating) sum = static_cast<Real>(sum / static_cast<Real>(ranks));
    store<Stored>(to, to_at + e, sum);
  }
}

void reduce(const Collective& c, const std::vector<Operands>& all, Chunk from, int last,
            std::byte* to, std::int64_t to_at) {
  visit(c.dtype,
        [&](auto stored) { reduce_chunk<decltype(stored)>(c, all, from, last, to, to_at); });
}

void copy_bytes(std::byte* to, const std::byte* from, Bytes bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

void first_half(const Collective& c, const std::vector<Operands>& all, int me) {
  const int ranks = static_cast<int>(all.size());
  const Bytes size = bytes_per_element(c.dtype);
  const Operands& mine = all[static_cast<std::size_t>(me)];
  const std::int64_t part = c.elements / ranks;
  switch (c.kind) {
    case CollectiveKind::all_reduce: {
      const Chunk chunk = chunk_of(c.elements, ranks, me);
      reduce(c, all, chunk, me, mine.receive, chunk.begin);
      break;
    }
    case CollectiveKind::reduce_scatter:
      reduce(c, all, {part * me, part}, me, mine.receive, 0);
      break;
    case CollectiveKind::reduce: {
      // Straight into the root's tensor: nobody else touches that chunk.
      const Chunk chunk = chunk_of(c.elements, ranks, me);
      reduce(c, all, chunk, me, all[static_cast<std::size_t>(c.root)].receive, chunk.begin);
      break;
    }
    case CollectiveKind::all_gather:
      copy_bytes(mine.receive + part * me * size, mine.send, part * size);
      break;
    case CollectiveKind::gather:
      copy_bytes(all[static_cast<std::size_t>(c.root)].receive + part * me * size, mine.send,
                 part * size);
      break;
    case CollectiveKind::broadcast:
    case CollectiveKind::scatter: break;
  }
}

void second_half(const Collective& c, const std::vector<Operands>& all, int me) {
  const int ranks = static_cast<int>(all.size());
  const Bytes size = bytes_per_element(c.dtype);
  const Operands& mine = all[static_cast<std::size_t>(me)];
  const std::int64_t part = c.elements / ranks;
  switch (c.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_gather:
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == me) continue;
        const Chunk chunk = c.kind == CollectiveKind::all_gather
                                ? Chunk{part * peer, part}
                                : chunk_of(c.elements, ranks, peer);
        const Bytes at = chunk.begin * size;
        copy_bytes(mine.receive + at, all[static_cast<std::size_t>(peer)].receive + at,
                   chunk.count * size);
      }
      break;
    case CollectiveKind::broadcast:
      copy_bytes(mine.receive, all[static_cast<std::size_t>(c.root)].send, c.elements * size);
      break;
    case CollectiveKind::scatter:
      copy_bytes(mine.receive, all[static_cast<std::size_t>(c.root)].send + part * me * size,
                 part * size);
      break;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::reduce:
    case CollectiveKind::gather: break;
  }
}

}  // namespace stepcast::runtime
