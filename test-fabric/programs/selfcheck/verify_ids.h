/* --verify-ids: what a program may have noted of its objects must stay as it was. */
#ifndef SELFCHECK_VERIFY_IDS_H
#define SELFCHECK_VERIFY_IDS_H

#include "job.h"

void verify_ids(struct connection *connection);

#endif
