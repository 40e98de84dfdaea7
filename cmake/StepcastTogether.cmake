# STEPCAST_TOGETHER: libraries and tests are compiled eight sources at a time (CMake's unity builds):
# what they include is parsed, and its templates are instantiated, once for eight. A first build of the
# preset dev takes 30 minutes of processor time in place of 40. A change of one source costs more, so it
# is off unless asked for; `./dev demo` and `./dev test` ask where they make the build folder.
#
# Sources whose unnamed namespaces have a name in common, or one that a header has, cannot be compiled
# together ("redefinition", "ambiguous"): the folder's list APART names one of them, or its name
# changes.
option(STEPCAST_TOGETHER "Compile sources eight at a time: a first build takes a quarter less" OFF)

# stepcast_together(TARGET "b.cpp;..."): TARGET's sources, but for those.
function(stepcast_together target apart)
  if(NOT STEPCAST_TOGETHER)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS apart)
    if(NOT source IN_LIST sources)
      message(FATAL_ERROR "${target}: APART ${source} is not among its SOURCES")
    endif()
    set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()
