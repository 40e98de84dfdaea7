#pragma once
// The kinds of frames between ranks and the server of a rendezvous. A frame's number is the rank,
// of exchange and together the count of the exchange.

#include <cstdint>

namespace stepcast::runtime::wire {

inline constexpr std::uint32_t magic = 0x53746331;  // "Stc1": another program's bytes are refused

enum Kind : std::uint32_t {
  hello = magic,
  exchange,
  stand,
  fail,
  leave,
  // from the server
  together,
  failed,
  alive,
  welcome,  // the first answer to a hello; its sender is of this meeting
};

}  // namespace stepcast::runtime::wire
