# lake_warnings(target): the house's warnings, for code of ours only.
function(lake_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes
    -Wmissing-prototypes -Wvla $<$<BOOL:${LAKE_WERROR}>:-Werror>)
  if(LAKE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${LAKE_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${LAKE_SANITIZE})
  endif()
endfunction()
