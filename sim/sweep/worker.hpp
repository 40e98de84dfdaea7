#pragma once
// A worker of a sweep: takes batches of points, works them out and answers, one message a point.
//
// The fluid engine's answers are the same to the last bit whatever the process did before, as long
// as SimGrid's clock is not worn (sim/engines/simgrid_tasks.hpp); 2,000 simulated seconds wear it.
// So a worker is two processes: one that has never simulated and waits, and its child that works.
// A child that is worn ends between two batches, and the next one goes on with the same socket and
// what its predecessor had read of it. What kills the child ends the worker. Where no point is
// simulated by the fluid engine no clock is worn.
//
// Cost: a fork, and the evaluator's caches anew, some 50 ms every 2,000 simulated seconds.
// Tested by tests/unit/sweep/dispatcher_test.cpp.

#include <cstdint>
#include <functional>
#include <string>

#include "sim/sweep/channel.hpp"
#include "sim/sweep/points.hpp"

namespace stepcast {

// Works out one point; what it throws becomes a result "failed".
using WorkOut = std::function<Result(std::size_t point, const std::string& engine)>;

// evaluate() of points, with an evaluator of its own.
WorkOut evaluating(const Points& points);

// What the owner's messages begin with.
inline constexpr std::uint32_t stop_word = 0, work_word = 1;

// The loop of a worker: takes batches until it is told to stop. False: the owner has gone.
bool serve(Channel channel, const WorkOut& work_out);

// The result of a point that nobody can work out.
Result failed(const std::string& why);

}  // namespace stepcast
