#pragma once
// Where DDP's ops run: compute, the process group's own stream, and the stream on which the
// callbacks of a communication hook's futures run (PyTorch takes one of its pool).

#include "sim/schedule/schedule.hpp"

namespace stepcast::ddp {

struct Streams {
  StreamIndex compute = 0;
  StreamIndex nccl = 0;
  StreamIndex hook = -1;  // only with a hook that has callbacks
  CommIndex world = 0;
};

}  // namespace stepcast::ddp
