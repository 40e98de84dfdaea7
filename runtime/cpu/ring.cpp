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

// The steps of a sum around n ranks, element by element.
template <typename Stored>
class Hops {
 public:
  using Real = typename Number<Stored>::Real;

  Hops(Reduction reduction, int ranks)
      : max_(reduction == Reduction::max), average_(reduction == Reduction::avg), ranks_(ranks) {
    if constexpr (floating) {
      if (average_) scale_ = Real(1) / static_cast<Real>(ranks);
    }
  }
  Real first(Real own) const { return rounded(scaled(own)); }
  Real next(Real sum, Real own) const {
    const Real x = scaled(own);
    return rounded(max_ ? std::max(sum, x) : static_cast<Real>(sum + x));
  }
  Real last(Real sum) const {
    return average_ && !floating ? static_cast<Real>(sum / static_cast<Real>(ranks_)) : sum;
  }

 private:
  static constexpr bool floating = std::is_floating_point_v<Real>;
  static Real rounded(Real x) { return Number<Stored>::load(Number<Stored>::store(x)); }
  Real scaled(Real x) const { return average_ && floating ? static_cast<Real>(x * scale_) : x; }

  bool max_, average_;
  int ranks_;
  Real scale_ = 1;
};

template <typename Stored>
void reduce_chunk(const Collective& c, const std::vector<Operands>& all, Chunk from, int last,
                  std::byte* to, std::int64_t to_at) {
  const int ranks = static_cast<int>(all.size());
  const Hops<Stored> hops(c.reduction, ranks);
  for (std::int64_t e = 0; e < from.count; ++e) {
    const auto input = [&](int hop) {
      const auto rank = static_cast<std::size_t>((last + 1 + hop) % ranks);
      return load<Stored>(all[rank].send, from.begin + e);
    };
    auto sum = hops.first(input(0));
    for (int hop = 1; hop < ranks; ++hop) sum = hops.next(sum, input(hop));
    store<Stored>(to, to_at + e, hops.last(sum));
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

void first_hop(const Collective& c, int ranks, const std::byte* own, std::int64_t count,
               std::byte* sum) {
  visit(c.dtype, [&](auto stored) {
    using Stored = decltype(stored);
    const Hops<Stored> hops(c.reduction, ranks);
    for (std::int64_t e = 0; e < count; ++e) {
      store<Stored>(sum, e, hops.first(load<Stored>(own, e)));
    }
  });
}

void next_hop(const Collective& c, int ranks, const std::byte* own, std::int64_t count,
              std::byte* sum) {
  visit(c.dtype, [&](auto stored) {
    using Stored = decltype(stored);
    const Hops<Stored> hops(c.reduction, ranks);
    for (std::int64_t e = 0; e < count; ++e) {
      store<Stored>(sum, e, hops.next(load<Stored>(sum, e), load<Stored>(own, e)));
    }
  });
}

void last_hop(const Collective& c, int ranks, std::byte* sum, std::int64_t count) {
  visit(c.dtype, [&](auto stored) {
    using Stored = decltype(stored);
    const Hops<Stored> hops(c.reduction, ranks);
    for (std::int64_t e = 0; e < count; ++e) {
      store<Stored>(sum, e, hops.last(load<Stored>(sum, e)));
    }
  });
}

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
