# Whether the CUDA plugin (runtime/cuda/plugin/) is built: STEPCAST_WITH_CUDA
#   AUTO   where nvcc and NCCL's header are found (cuDNN's too: else attention is not fused)
#   ON     an error where they are not
#   OFF    never
# Sets STEPCAST_CUDA, STEPCAST_NCCL_INCLUDE, STEPCAST_CUDNN_INCLUDE and says what it found.

set(STEPCAST_WITH_CUDA AUTO CACHE STRING "Build the CUDA plugin: AUTO, ON or OFF")
set_property(CACHE STEPCAST_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)
set(STEPCAST_CUDA OFF)

if(STEPCAST_WITH_CUDA)
  set(missing "")
  # PATH first, then where NVIDIA's packages put it.
  find_program(STEPCAST_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT STEPCAST_NVCC)
    list(APPEND missing nvcc)
  else()
    cmake_path(GET STEPCAST_NVCC PARENT_PATH cuda_bin)
    cmake_path(GET cuda_bin PARENT_PATH cuda_root)
    find_path(STEPCAST_NCCL_INCLUDE nccl.h HINTS ${cuda_root}/include ENV NCCL_HOME
              PATH_SUFFIXES include)
    find_path(STEPCAST_CUDNN_INCLUDE cudnn.h HINTS ${cuda_root}/include ENV CUDNN_HOME
              PATH_SUFFIXES include)
    if(NOT STEPCAST_NCCL_INCLUDE)
      list(APPEND missing nccl.h)
    endif()
  endif()
  if(missing)
    list(JOIN missing ", " missing)
    if(STEPCAST_WITH_CUDA STREQUAL AUTO)
      message(STATUS "CUDA plugin: not built, ${missing} not found")
    else()
      message(FATAL_ERROR "STEPCAST_WITH_CUDA=${STEPCAST_WITH_CUDA}: ${missing} not found")
    endif()
  else()
    set(CMAKE_CUDA_COMPILER ${STEPCAST_NVCC})
    # The architectures that this compiler still knows, of those that train models; newer GPUs compile
    # the last one's PTX themselves. (CUDA 13 dropped sm_70, CUDA 12.8 brought sm_100.)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      execute_process(COMMAND ${STEPCAST_NVCC} --list-gpu-arch OUTPUT_VARIABLE known
                      OUTPUT_STRIP_TRAILING_WHITESPACE)
      set(architectures "")
      foreach(number 70 80 86 89 90 100 120)
        if(known MATCHES "compute_${number}(\n|$)")
          list(APPEND architectures ${number}-real)
          set(newest ${number})
        endif()
      endforeach()
      set(CMAKE_CUDA_ARCHITECTURES ${architectures} ${newest}-virtual CACHE STRING "")
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    if(NOT STEPCAST_CUDNN_INCLUDE)
      set(STEPCAST_CUDNN_INCLUDE "")
    endif()
    set(STEPCAST_CUDA ON)
    set(cudnn "without cuDNN")
    if(STEPCAST_CUDNN_INCLUDE)
      set(cudnn "with cuDNN")
    endif()
    message(STATUS "CUDA plugin: built with CUDA ${CUDAToolkit_VERSION}, NCCL, ${cudnn}, "
                   "for ${CMAKE_CUDA_ARCHITECTURES}")
  endif()
endif()
