! SPDX-License-Identifier: Apache-2.0
! The functions of shadowverbs_program.h, which says what each does, for Fortran 2003 and later: use shadowverbs.
module shadowverbs
    use, intrinsic :: iso_c_binding, only: c_int, c_ptr, c_funptr, c_char, c_size_t, c_null_funptr, c_f_pointer
    implicit none
    private

    integer(c_int), parameter, public :: SHADOWVERBS_ABSENT = 0
    integer(c_int), parameter, public :: SHADOWVERBS_DONE = 1
    integer(c_int), parameter, public :: SHADOWVERBS_RESUMED = 1
    integer(c_int), parameter, public :: SHADOWVERBS_RESTARTED = 2
    integer(c_int), parameter, public :: SHADOWVERBS_GIVEN_UP = 3

    ! Both are procedures with bind(c), or c_null_funptr; see before_procedure and after_procedure.
    type, bind(c), public :: shadowverbs_callbacks
        type(c_funptr) :: before = c_null_funptr
        type(c_funptr) :: after = c_null_funptr
    end type shadowverbs_callbacks

    abstract interface
        function before_procedure(argument) bind(c) result(refuses)
            import :: c_int, c_ptr
            type(c_ptr), value :: argument
            integer(c_int) :: refuses
        end function before_procedure

        subroutine after_procedure(argument, outcome) bind(c)
            import :: c_int, c_ptr
            type(c_ptr), value :: argument
            integer(c_int), value :: outcome
        end subroutine after_procedure
    end interface
    public :: before_procedure, after_procedure

    interface
        function shadowverbs_available() bind(c, name="shadowverbs_available") result(there)
            import :: c_int
            integer(c_int) :: there
        end function shadowverbs_available

        function shadowverbs_checkpoint() bind(c, name="shadowverbs_checkpoint") result(outcome)
            import :: c_int
            integer(c_int) :: outcome
        end function shadowverbs_checkpoint

        function shadowverbs_checkpoint_together(processes) bind(c, name="shadowverbs_checkpoint_together") &
                result(outcome)
            import :: c_int
            integer(c_int), value :: processes
            integer(c_int) :: outcome
        end function shadowverbs_checkpoint_together

        function shadowverbs_delay_begin() bind(c, name="shadowverbs_delay_begin") result(done)
            import :: c_int
            integer(c_int) :: done
        end function shadowverbs_delay_begin

        function shadowverbs_delay_end() bind(c, name="shadowverbs_delay_end") result(done)
            import :: c_int
            integer(c_int) :: done
        end function shadowverbs_delay_end

        function shadowverbs_register(callbacks, argument) bind(c, name="shadowverbs_register") result(number)
            import :: c_int, c_ptr, shadowverbs_callbacks
            type(shadowverbs_callbacks), intent(in) :: callbacks
            type(c_ptr), value :: argument
            integer(c_int) :: number
        end function shadowverbs_register

        function shadowverbs_unregister(number) bind(c, name="shadowverbs_unregister") result(done)
            import :: c_int
            integer(c_int), value :: number
            integer(c_int) :: done
        end function shadowverbs_unregister
    end interface
    public :: shadowverbs_available, shadowverbs_checkpoint, shadowverbs_checkpoint_together
    public :: shadowverbs_delay_begin, shadowverbs_delay_end, shadowverbs_register, shadowverbs_unregister
    public :: shadowverbs_problem

contains
    ! Why the last call of this thread that returned -1 has failed.
    function shadowverbs_problem() result(text)
        character(:), allocatable :: text
        interface
            function problem() bind(c, name="shadowverbs_problem") result(line)
                import :: c_ptr
                type(c_ptr) :: line
            end function problem

            pure function length(line) bind(c, name="strlen") result(bytes)
                import :: c_ptr, c_size_t
                type(c_ptr), value :: line
                integer(c_size_t) :: bytes
            end function length
        end interface
        type(c_ptr) :: line
        character(kind=c_char), pointer :: letters(:)
        integer :: i

        line = problem()
        call c_f_pointer(line, letters, [length(line)])
        allocate (character(size(letters)) :: text)
        do i = 1, size(letters)
            text(i:i) = letters(i)
        end do
    end function shadowverbs_problem
end module shadowverbs
