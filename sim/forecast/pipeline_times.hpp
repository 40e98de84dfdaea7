#pragma once
// How long pipelined chunks take around rings and through trees, in closed form: what the messages
// engine finds by sending each of them.
//
// Ring. Every link is busy for `full` seconds in all; on top comes the latency that nothing hides.
// A loop is one chunk a rank; `window` loops are under way. While a chunk of x seconds is on its
// way for l more, its link sends the chunks of the other loops under way, so a step waits l - x *
// (others), and steps that take less make up for those that take more (between nodes); a loop that
// is alone waits l in every step.
//
//   8 ranks, 14 steps of l = 14 us, chunks of 87 us, window 2
//   1 loop   alone: 14 * 14 us        2 loops   hidden but the last: 14 us
//   3 loops  two hide each other, the third is alone: 14 * 14 us
//
// Trees. Head, body and tail: a link that carries B bytes at rate r cannot be done before the first
// chunk reaches it (head), all B have passed (B / r), and the last chunk has gone from there to the
// last leaf (tail). Edges that cross a link share it fairly, each from its own head on, so those
// with a long tail end as late as the others; the latest end and tail of all links is the time.
// Heads are the first chunk's way, beside all that has begun on its links; tails the last chunk's,
// which goes as the first would alone.
//
//   a chain of 3, one tree of 100 chunks, x seconds a chunk, no latency: the middle's link carries
//   100 up from x on and 100 down from 3 x on; both end at 201 x, and x later the last leaf has it
//
// A leaf begins chunk k when the one above has chunk k - window: where a window of chunks is
// through before the first of them is there, each window costs a chunk and its latency (NVLS' small
// chunks).
//
// Chains. Every link is busy for as long as its bytes take; the last chunk then goes on over the
// other links. Chunk k waits for chunk k - window to be there: where that many chunks take less
// than one and its latency, each window costs the latter.
//
//   1 MiB through a switch, 16 chunks of 2 us, window 8, latency 12.5 us: the first 8 cost 16 us,
//   the others end 16 us later, and the last one is there at 44.5 us
//
// One chunk an edge is exact. A few chunks differ from that by up to a seventh: they are late where
// fairness let others pass first. Many chunks lie within 5 %.
// Cost: edges of a link, squared; 2 ms for 64 ranks and 16 trees.
// Tested by tests/unit/forecast/collective_messages_test.cpp against the messages themselves.

#include "sim/engines/messages.hpp"

namespace stepcast {

struct RingPace {
  int steps = 0;
  int crossings = 0;  // of the steps, between nodes
  Seconds within = 0, between = 0;
  double bytes = 0;        // of one rank's part of the ring's share
  double chunk_bytes = 0;  // the most of it that goes at a time
  int window = 1;
};

Seconds ring_seconds(const RingPace& pace, Seconds full);

// Of all trees of all collectives together.
Seconds tree_seconds(const MessagesInput& input);

// Of all chains of all collectives together, alike as they are.
Seconds chain_seconds(const MessagesInput& input);

// Of the link that is busy longest, by what the rings, trees and chains put on it.
Seconds fullest_link_seconds(const MessagesInput& input);

}  // namespace stepcast
