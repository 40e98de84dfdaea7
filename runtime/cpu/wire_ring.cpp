#include "runtime/cpu/wire_ring.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

namespace stepcast::runtime {
namespace {

// A message: small enough that a chain of ranks works on several at once, large enough that a
// message costs little beside its bytes.
constexpr Bytes slice = 128 * 1024;
constexpr std::size_t in_flight = 16;  // messages of one transfer that are under way at once

}  // namespace

// The parts of a tensor that a ring passes round, in bytes.
struct WireRing::Parts {
  struct Part {
    Bytes begin = 0, size = 0;
  };
  const Part& operator()(int index) const {  // modulo their number
    const int n = static_cast<int>(all.size());
    return all[static_cast<std::size_t>(((index % n) + n) % n)];
  }
  Bytes largest() const {
    return std::max_element(all.begin(), all.end(),
                            [](const Part& a, const Part& b) { return a.size < b.size; })
        ->size;
  }
  std::vector<Part> all;
};

WireRing::WireRing(Wire& wire, int channel, std::vector<int> ranks, std::function<void(int)> pause,
                   std::function<void()> moved)
    : wire_(wire),
      channel_(channel),
      ranks_(std::move(ranks)),
      pause_(std::move(pause)),
      moved_(std::move(moved)) {
  me_ = static_cast<int>(std::find(ranks_.begin(), ranks_.end(), wire.rank()) - ranks_.begin());
}

int WireRing::member(int index) const {
  const int n = static_cast<int>(ranks_.size());
  return ranks_[static_cast<std::size_t>(((index % n) + n) % n)];
}

std::byte* WireRing::scratch(Bytes bytes, int which) {
  std::vector<std::byte>& memory = scratch_[which];
  if (static_cast<Bytes>(memory.size()) < bytes) memory.resize(static_cast<std::size_t>(bytes));
  return memory.data();
}

void WireRing::await(Wire::Request request) {
  for (int turn = 0; !wire_.done(request); ++turn) pause_(turn);
  moved_();
}

// Sends and receives at once; either may be of no bytes.
void WireRing::exchange(const std::byte* from, Bytes out, int to, std::byte* into, Bytes in,
                        int sender) {
  std::deque<Wire::Request> coming, going;
  Bytes asked = 0, sent = 0;
  while (asked < in || sent < out || !coming.empty() || !going.empty()) {
    while (asked < in && coming.size() < in_flight) {
      const Bytes now = std::min(slice, in - asked);
      coming.push_back(
          wire_.receive(sender, channel_, into + asked, static_cast<std::size_t>(now)));
      asked += now;
    }
    while (sent < out && going.size() < in_flight) {
      const Bytes now = std::min(slice, out - sent);
      going.push_back(wire_.send(to, channel_, from + sent, static_cast<std::size_t>(now)));
      sent += now;
    }
    bool went = false;
    for (int turn = 0; !went; ++turn) {
      while (!coming.empty() && wire_.done(coming.front())) {
        coming.pop_front();
        went = true;
      }
      while (!going.empty() && wire_.done(going.front())) {
        going.pop_front();
        went = true;
      }
      if (!went) pause_(turn);
    }
    moved_();
  }
}

// ---- Rings --------------------------------------------------------------------------------------

// Step s of n - 1: my sum of part me - 1 - s goes on to the next rank, which adds its own; the last
// to add to part c is rank c. `tensor` holds my input; my part of it is finished in the end.
void WireRing::reduce_parts(const Collective& c, std::byte* tensor, const Parts& part) {
  const int n = static_cast<int>(ranks_.size());
  const Bytes size = bytes_per_element(c.dtype);
  std::byte* sum = scratch(part.largest(), 0);
  std::byte* incoming = scratch(part.largest(), 1);
  if (tensor != nullptr) {
    const Parts::Part first = part(me_ - 1);
    first_hop(c, n, tensor + first.begin, first.size / size, sum);
  }
  for (int s = 0; s < n - 1; ++s) {
    const Parts::Part out = part(me_ - 1 - s);
    const Parts::Part in = part(me_ - 2 - s);
    exchange(sum, out.size, member(me_ + 1), incoming, in.size, member(me_ - 1));
    if (tensor != nullptr) next_hop(c, n, tensor + in.begin, in.size / size, incoming);
    std::swap(sum, incoming);
  }
  if (tensor == nullptr) return;
  const Parts::Part mine = part(me_);
  last_hop(c, n, sum, mine.size / size);
  std::memcpy(tensor + mine.begin, sum, static_cast<std::size_t>(mine.size));
}

// Step s: part me - s, which I have, goes to the next rank.
void WireRing::gather_parts(std::byte* tensor, const Parts& part) {
  const auto at = [&](const Parts::Part& p, int which) {
    return tensor != nullptr ? tensor + p.begin : scratch(part.largest(), which);
  };
  for (int s = 0; s < static_cast<int>(ranks_.size()) - 1; ++s) {
    const Parts::Part out = part(me_ - s);
    const Parts::Part in = part(me_ - s - 1);
    exchange(at(out, 0), out.size, member(me_ + 1), at(in, 1), in.size, member(me_ - 1));
  }
}

// ---- Chains and stars ---------------------------------------------------------------------------

// From the root along the ring; who is not the last passes on each slice as it comes.
void WireRing::broadcast(const Collective& c, Operands mine) {
  const int n = static_cast<int>(ranks_.size());
  const Bytes bytes = c.elements * bytes_per_element(c.dtype);
  const int place = (me_ - c.root + n) % n;
  if (mine.receive && place == 0 && mine.receive != mine.send) {
    std::memmove(mine.receive, mine.send, static_cast<std::size_t>(bytes));
  }
  std::byte* tensor = mine.receive ? mine.receive : scratch(bytes, 0);
  std::deque<Wire::Request> going, coming;
  Bytes asked = 0;
  for (Bytes at = 0; at < bytes; at += slice) {
    const Bytes now = std::min(slice, bytes - at);
    if (place > 0) {
      while (asked < bytes && coming.size() < in_flight) {
        const Bytes ask = std::min(slice, bytes - asked);
        coming.push_back(wire_.receive(member(me_ - 1), channel_, tensor + asked,
                                       static_cast<std::size_t>(ask)));
        asked += ask;
      }
      await(coming.front());
      coming.pop_front();
    }
    if (place < n - 1) {
      going.push_back(
          wire_.send(member(me_ + 1), channel_, tensor + at, static_cast<std::size_t>(now)));
      if (going.size() > in_flight) {
        await(going.front());
        going.pop_front();
      }
    }
  }
  for (const Wire::Request request : going) await(request);
}

// To the root along the ring, from the rank after it; each adds its own to each slice.
void WireRing::reduce(const Collective& c, Operands mine) {
  const int n = static_cast<int>(ranks_.size());
  const Bytes size = bytes_per_element(c.dtype);
  const Bytes bytes = c.elements * size;
  const int place = (me_ - c.root - 1 + n) % n;  // the root is the last
  std::byte* sum = scratch(bytes, 0);
  std::deque<Wire::Request> going, coming;
  Bytes asked = 0;
  for (Bytes at = 0; at < bytes; at += slice) {
    const Bytes now = std::min(slice, bytes - at);
    const std::byte* own = mine.send ? mine.send + at : nullptr;
    if (place > 0) {
      while (asked < bytes && coming.size() < in_flight) {
        const Bytes ask = std::min(slice, bytes - asked);
        coming.push_back(
            wire_.receive(member(me_ - 1), channel_, sum + asked, static_cast<std::size_t>(ask)));
        asked += ask;
      }
      await(coming.front());
      coming.pop_front();
      if (own != nullptr) next_hop(c, n, own, now / size, sum + at);
    } else if (own != nullptr) {
      first_hop(c, n, own, now / size, sum + at);
    }
    if (place < n - 1) {
      going.push_back(
          wire_.send(member(me_ + 1), channel_, sum + at, static_cast<std::size_t>(now)));
      if (going.size() > in_flight) {
        await(going.front());
        going.pop_front();
      }
    } else if (mine.receive != nullptr) {
      last_hop(c, n, sum + at, now / size);
      std::memcpy(mine.receive + at, sum + at, static_cast<std::size_t>(now));
    }
  }
  for (const Wire::Request request : going) await(request);
}

void WireRing::gather(const Collective& c, Operands mine) {
  const int n = static_cast<int>(ranks_.size());
  const Bytes part = c.elements / n * bytes_per_element(c.dtype);
  const bool real = mine.send != nullptr;
  if (me_ != c.root) {
    exchange(real ? mine.send : scratch(part, 0), part, member(c.root), nullptr, 0, -1);
    return;
  }
  std::byte* to = real ? mine.receive : scratch(part * n, 0);
  for (int i = 1; i < n; ++i) {
    const int index = (me_ + i) % n;
    exchange(nullptr, 0, -1, to + part * index, part, member(index));
  }
  if (real) std::memmove(to + part * me_, mine.send, static_cast<std::size_t>(part));
}

void WireRing::scatter(const Collective& c, Operands mine) {
  const int n = static_cast<int>(ranks_.size());
  const Bytes part = c.elements / n * bytes_per_element(c.dtype);
  const bool real = mine.receive != nullptr;
  if (me_ != c.root) {
    exchange(nullptr, 0, -1, real ? mine.receive : scratch(part, 0), part, member(c.root));
    return;
  }
  const std::byte* from = real ? mine.send : scratch(part * n, 0);
  for (int i = 1; i < n; ++i) {
    const int index = (me_ + i) % n;
    exchange(from + part * index, part, member(index), nullptr, 0, -1);
  }
  if (real) std::memmove(mine.receive, from + part * me_, static_cast<std::size_t>(part));
}

void WireRing::carry_out(const Collective& c, Operands mine) {
  const int n = static_cast<int>(ranks_.size());
  const Bytes size = bytes_per_element(c.dtype);
  const bool real = mine.receive != nullptr;
  if (n == 1) {
    const std::vector<Operands> all{mine};
    if (real) first_half(c, all, 0);
    if (real) second_half(c, all, 0);
    return;
  }
  // Even parts, or for an all-reduce of any size nearly even ones.
  Parts parts;
  for (int i = 0; i < n; ++i) {
    const std::int64_t begin = c.elements * i / n;
    parts.all.push_back({begin * size, (c.elements * (i + 1) / n - begin) * size});
  }
  const auto whole = static_cast<std::size_t>(c.elements * size);
  const Bytes at_mine = parts(me_).begin;
  const auto my_bytes = static_cast<std::size_t>(c.elements / n * size);
  switch (c.kind) {
    case CollectiveKind::all_reduce:
      if (real && mine.receive != mine.send) std::memmove(mine.receive, mine.send, whole);
      reduce_parts(c, mine.receive, parts);
      gather_parts(mine.receive, parts);
      break;
    case CollectiveKind::reduce_scatter: {
      std::vector<std::byte> input;
      if (real) input.assign(mine.send, mine.send + whole);
      reduce_parts(c, real ? input.data() : nullptr, parts);
      if (real) std::memcpy(mine.receive, input.data() + at_mine, my_bytes);
      break;
    }
    case CollectiveKind::all_gather:
      if (real && mine.receive + at_mine != mine.send) {
        std::memmove(mine.receive + at_mine, mine.send, my_bytes);
      }
      gather_parts(mine.receive, parts);
      break;
    case CollectiveKind::broadcast: broadcast(c, mine); break;
    case CollectiveKind::reduce: reduce(c, mine); break;
    case CollectiveKind::gather: gather(c, mine); break;
    case CollectiveKind::scatter: scatter(c, mine); break;
  }
}

}  // namespace stepcast::runtime
