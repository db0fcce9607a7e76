// SPDX-License-Identifier: Apache-2.0
#ifndef CRIU_STANDBY_H
#define CRIU_STANDBY_H

/* Returns when CRIU may begin; at once when nobody has asked it to wait. */
void sv_stand_by(void);

#endif
