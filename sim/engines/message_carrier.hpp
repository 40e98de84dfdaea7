#pragma once
// Who takes a message over the links of its connection. Internal to sim/engines.

#include "base/units.hpp"

namespace stepcast {

class MessageCarrier {
 public:
  // Told what happens, from within the run. May start messages; must not throw.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void flow_ended(int connection) = 0;
    virtual void latency_over(int connection) = 0;
  };

  virtual ~MessageCarrier() = default;
  virtual void listen(Listener& listener) = 0;
  virtual void start(int connection, double bytes) = 0;  // one at a time on a connection
  virtual void after(Seconds latency, int connection) = 0;
};

}  // namespace stepcast
