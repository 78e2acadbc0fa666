/* HDF5 on a disk that may be full. An HDF5 file whose writes fail can be neither closed nor left: closing fails, and
 * HDF5 tries again at exit and crashes. So once a write has failed the file is doomed, and all that follows is taken as
 * written; whoever closes it asks for the failure and throws the file away. One thread, one file at a time. */
#ifndef LKI_LAUNCHER_EXPORT_DISK_H
#define LKI_LAUNCHER_EXPORT_DISK_H

#include <hdf5.h>

/* Makes an access list use this driver; path is a file that exists. Negative: HDF5 refused. */
herr_t lki_export_disk(hid_t access, const char *path);
/* errno of the first write that failed since then; 0: none did. */
int lki_export_disk_failure(void);

#endif
