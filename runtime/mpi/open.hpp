#pragma once
// The wire of MPI, opened at run time: libstepcast_mpi.so lies beside the program
// (../lib/stepcast), or where STEPCAST_MPI_PLUGIN says.
//
//   if (under_mpirun()) wire = open_mpi();
//
// Tested by tests/mpi.

#include <memory>
#include <string>

#include "runtime/cpu/wire.hpp"

namespace stepcast::runtime {

// Whether a launcher of MPI started this process, and as which rank (-1: no launcher).
bool under_mpirun();
int launched_rank();

// Initialises MPI. Throws InputError where the plugin, its libraries or thread support are missing.
std::unique_ptr<Wire> open_mpi();

// The file that open_mpi() would open; "" where there is none.
std::string mpi_plugin();

// What the plugin exports. Returns null with a reason; `interface` must be wire_interface.
inline constexpr int wire_interface = 1;
using OpenWire = Wire* (*)(int interface, char* why, std::size_t size);

}  // namespace stepcast::runtime
