#pragma once
// The most that a profile's efficiency can be.
//
// An efficiency is a rate against the model's, not against the machine's, so it may be above 1: a
// product that cuBLAS runs at 85 % of the peak where the model says 65 % has 1.3. What bounds it is
// physical: the models' products reach 0.55 to 0.96 of the peak (sustained_fraction in
// data/kernel-fits.toml), so 2 would be above every peak; memory-bound kernels stream at 0.8 to
// 0.94 of the bandwidth, and fusing two of them saves at most half of what they move; NVLink and
// NICs are modelled at more than half of what they carry. The largest of the catalog is 1.30,
// products of BERT; a profile that seems to need more than 2 hides a wrong count of work, as
// nanotron's once did (1.56 on memory-bound kernels, 1.06 since its fp32 gradients are counted).

namespace stepcast {

constexpr double most_efficiency = 2;

}  // namespace stepcast
