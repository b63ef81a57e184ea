/* What a function that can fail returns: 0 when done, else one of these. */
#ifndef SM_ERROR_H
#define SM_ERROR_H

/* The caller must look at the result. */
#define SM_CHECKED __attribute__((warn_unused_result))

/* On the wire these are STEPMAP_RESULT with the sign turned around; firmware/dialect/stepmap.xml says what to do. */
enum {
  SM_EARGUMENT = -1, /* a value the function is not made for */
  SM_ENONE = -2,     /* there is nothing of that kind here */
  SM_EIO = -3,       /* memory could not be written, or the line did not take the bytes */
  SM_EFULL = -4,     /* no room before the next erase, which has to wait until nothing runs */
  SM_ESIZE = -5,     /* more or fewer bytes than there may be */
  SM_EBUSY = -6,     /* allowed only while nothing runs */
  SM_ESTATE = -7,    /* not the time for it */
  SM_EKEY = -8,      /* made with another key */
  SM_EREPLAY = -9,   /* seen before */
  SM_EMODEL = -10,   /* made for another model */
  SM_EDIGEST = -11,  /* the bytes are not those that were announced */
  SM_EFORMAT = -12   /* not a schedule */
};

#endif
