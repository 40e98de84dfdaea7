#pragma once
// The parts of DeepSpeed's configuration. Internal to deepspeed*.cpp.

#include "sim/jobs/readers.hpp"

namespace stepcast::jobs {

void read_zero(Section& root);   // zero_optimization
void read_dtype(Section& root);  // bf16, fp16, data_types, communication_data_type

}  // namespace stepcast::jobs
