#pragma once
// FSDP1 divides gradients twice so that neither a 16-bit sum overflows nor a small value vanishes:
// by `pre` before the reduction and by `post` after it, pre * post = W. pre starts at 1 and doubles
// while it divides W and W / pre > pre.
//
//   W = 8: 1 -> 2 -> 4 (8/2 = 4 > 2), then 8/4 = 2 > 4 fails: (4, 2)
//
// Under HSDP W is the number of all ranks. Source: PyTorch _common_utils / DefaultState (docs/
// sources.md 2.2). Tested by tests/unit/strategies/fsdp1_flat_test.cpp (E-17).

namespace stepcast::fsdp1 {

struct Average {
  double pre = 1;
  double post = 1;
};

constexpr Average average_of(int ranks) {
  int factor = 1;
  while (ranks % factor == 0 && ranks / factor > factor) factor *= 2;
  return {static_cast<double>(factor), static_cast<double>(ranks) / factor};
}

}  // namespace stepcast::fsdp1
