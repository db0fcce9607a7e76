! SPDX-License-Identifier: Apache-2.0
! As absent.c. It names every procedure and type of the module.
module calls
    use, intrinsic :: iso_c_binding
    use shadowverbs
    implicit none
contains
    function before(argument) bind(c) result(refuses)
        type(c_ptr), value :: argument
        integer(c_int) :: refuses
        refuses = merge(0, 1, c_associated(argument))
    end function before

    subroutine after(argument, outcome) bind(c)
        type(c_ptr), value :: argument
        integer(c_int), value :: outcome
        if (c_associated(argument) .and. outcome == SHADOWVERBS_GIVEN_UP) error stop "called without a checkpoint"
    end subroutine after

    subroutine check(what, returned)
        character(*), intent(in) :: what
        integer(c_int), intent(in) :: returned
        if (returned == SHADOWVERBS_ABSENT) return
        print *, what, " returned ", returned
        error stop 1
    end subroutine check
end module calls

program absent
    use, intrinsic :: iso_c_binding
    use shadowverbs
    use calls
    implicit none
    procedure(before_procedure), pointer :: b
    procedure(after_procedure), pointer :: a
    type(shadowverbs_callbacks) :: callbacks

    b => before
    a => after
    callbacks%before = c_funloc(b)
    callbacks%after = c_funloc(a)
    call check("available", shadowverbs_available())
    call check("register", shadowverbs_register(callbacks, c_null_ptr))
    call check("delay_begin", shadowverbs_delay_begin())
    call check("delay_end", shadowverbs_delay_end())
    call check("checkpoint", shadowverbs_checkpoint())
    call check("checkpoint_together", shadowverbs_checkpoint_together(2_c_int))
    call check("unregister", shadowverbs_unregister(1_c_int))
    if (len(shadowverbs_problem()) /= 0) error stop "a problem"
    print "(a)", "ok absent in Fortran"
end program absent
