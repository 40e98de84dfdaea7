// What a user of the libraries writes: one all-reduce, and the bytes each rank sends for it by ring
// counting: 2 (8-1)/8 of 1,000 MB.
#include <cstdio>

#include "sim/schedule/builder.hpp"

int main() {
  stepcast::ScheduleBuilder b("consumer", stepcast::Mesh{8, 1});
  const auto stream = b.stream("nccl");
  const auto world = b.communicator("world", stepcast::Axis::world);
  const auto gradients = b.persistent("gradients", stepcast::BufferKind::gradient,
                                      stepcast::Dtype::fp32, 1'000'000'000);
  b.role("all", 0, 8);
  b.step("steady");
  b.at(stepcast::Phase::backward);
  const stepcast::View whole[] = {b.whole(gradients)};
  b.collective("all_reduce", stepcast::CollectiveKind::all_reduce, world, stream,
               stepcast::Dtype::fp32, 250'000'000, stepcast::Reduction::sum, whole, whole);
  const stepcast::Schedule schedule = b.take();
  const stepcast::Op& op = schedule.roles[0].steps[0].ops[0];
  std::printf("all-reduce of %.0f MB on %d ranks: %.0f MB sent by each\n",
              static_cast<double>(stepcast::bytes_of(op)) / 1e6,
              schedule.mesh.size(stepcast::Axis::world),
              stepcast::ring_bytes_sent(op, schedule.mesh.size(stepcast::Axis::world)) / 1e6);
  return 0;
}
