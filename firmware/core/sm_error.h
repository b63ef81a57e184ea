/* Results: a function that can fail returns 0 when done and one of these negative codes otherwise. On failure it
 * leaves its outputs untouched, except where its header says otherwise. */
#ifndef SM_ERROR_H
#define SM_ERROR_H

/* Marks a function whose result the caller must check. */
#define SM_CHECKED __attribute__((warn_unused_result))

/* On the wire these are STEPMAP_RESULT with the opposite sign; firmware/dialect/stepmap.xml has the remedies. */
enum {
  SM_EARGUMENT = -1, /* a value outside of its range */
  SM_ENONE = -2,     /* the board has nothing of that kind */
  SM_EIO = -3,       /* flash could not be written, or the line did not take the bytes */
  SM_EFULL = -4,     /* no room before the next erase, which waits until nothing moves */
  SM_ESIZE = -5,     /* more or fewer bytes than there may be */
  SM_EBUSY = -6,     /* allowed only in the state idle */
  SM_ESTATE = -7,    /* out of order */
  SM_EKEY = -8,      /* signed with another key */
  SM_EREPLAY = -9,   /* not newer than one before */
  SM_EMODEL = -10,   /* made for another model */
  SM_EDIGEST = -11,  /* the bytes are not those that were announced */
  SM_EFORMAT = -12   /* not a schedule */
};

#endif
