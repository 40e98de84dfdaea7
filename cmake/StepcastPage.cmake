# stepcast_page(OUT): a rule that makes OUT, the report page as one HTML file, from page/.
#
# The npm packages lie in build/page/node_modules, shared by all build folders; `./dev` installs
# them (npm ci). Without them, or without Node 18 or later, OUT is empty and the program says that
# HTML is off. build/page/installed tells which: it is rewritten when that changes, so that the page
# is built as soon as it can be.
function(stepcast_page out)
  set(modules ${PROJECT_SOURCE_DIR}/build/page/node_modules)
  set(installed ${PROJECT_SOURCE_DIR}/build/page/installed)
  if(NOT EXISTS ${installed})
    file(WRITE ${installed} "none\n")
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/page/src/*)
  list(APPEND sources ${PROJECT_SOURCE_DIR}/page/index.html ${PROJECT_SOURCE_DIR}/page/vite.config.ts
       ${PROJECT_SOURCE_DIR}/page/package.json)
  add_custom_command(
    OUTPUT ${out}
    COMMAND
      ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}/page -DMODULES=${modules}
      -DINSTALLED=${installed} -DWORK=${CMAKE_CURRENT_BINARY_DIR}/page -DOUT=${out} -P
      ${PROJECT_SOURCE_DIR}/cmake/Page.cmake
    DEPENDS ${sources} ${installed} ${PROJECT_SOURCE_DIR}/cmake/Page.cmake
    COMMENT "Bundling the report page"
    VERBATIM)
endfunction()
