#pragma once
// Who gets how much of the shared resources: bottleneck max fairness. Every task moves at one speed
// on all it asks; its speed is 1 when nothing holds it. Then either it is at speed 1, or some
// resource that it asks is full and no task gets more of that resource than it does.
//
// Example: a GEMM asks all SMs, two collectives 17 % and 13 % of them: the collectives want less
// than a third and get it, at speed 1; the GEMM gets the other 70 %.
//
// Method: every resource has a level, the most that one task may hold of it; a task's speed is the
// smallest of level / ask over its resources. Each resource in turn sets its level to where it is
// just full, given the levels of the others (water filling; 1 when there is enough for all), until
// no level moves. With one resource contended that is one round, with two interlocked ones it is a
// geometric series. Should it not settle, a last round that only lowers levels keeps every resource
// within its capacity.
//
// Cost: rounds x (asks of contended resources); half a microsecond for three tasks.
// Why not SimGrid's solvers: see simgrid_tasks.hpp. Source of the notion: T. Bonald and J. Roberts,
// "Multi-resource fairness: objectives, algorithms and performance" (2015).
// Internal to sim/engines. Tested by tests/unit/engines/sharing_test.cpp.

#include <span>
#include <vector>

namespace stepcast {

struct Ask {
  int resource = 0;
  double share = 0;  // of the resource, while the task is at speed 1; at most 1
};

class Sharing {
 public:
  // Task ids are small and may be used again after remove(). A resource at most once a task.
  void add(int task, std::span<const Ask> asks);
  void remove(int task);
  void clear();
  // Tasks that ask for what the task asks for, or for what one of these asks for, and so on: all
  // whose speed may change when it comes or goes. Itself among them.
  const std::vector<int>& neighbours(int task);

  // In (0, 1]; 1 for a task that is not there. All are computed together, when the first one is
  // asked for after a change.
  double speed(int task);
  // Whether the levels settled when the speeds were computed last.
  bool settled() const { return settled_; }

 private:
  struct Task {
    std::vector<Ask> asks;
    double speed = 1;
    bool running = false;
    bool near = false;
  };
  struct User {
    int task = 0;
    double share = 0;
  };
  struct Resource {
    std::vector<User> users;
    double level = 1;
  };

  void compute();
  double held_by_others(const User& user, int resource) const;
  double fitting_level(int resource);

  std::vector<Task> tasks_;
  std::vector<Resource> resources_;
  std::vector<int> contended_;  // resources with several users
  std::vector<double> wants_;
  std::vector<int> near_;
  bool changed_ = false;
  bool settled_ = true;
};

}  // namespace stepcast
